/* link_of_host.h - how fast the thread that copies of a plan have is here, to memory or to a file. */
#pragma once

#include "executor/tiers/copy_queue.h"
#include "executor/tiers/link_speed.h"

/* Measures copies between memory of the program and a tier, in `folder` or, if NULL, in memory as well: some 2 GB are moved.
 * The tier is gone afterwards. As mp_tier_open and mp_copy_queue_wait. */
mp_status mp_link_measure_host(const char *folder, const mp_copy_queue_options *options, mp_link_speed *out, mp_error *err);
