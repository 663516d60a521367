/* link_of_host.h - measures the speed of copies between host memory and a memory tier on this machine: other host memory, or a
 * file. */
#pragma once

#include "executor/tiers/copy_queue.h"
#include "executor/tiers/link_speed.h"

/* Measures copies between host memory and a tier: a file in `folder`, or, if folder is NULL, host memory. About 2 GB are moved.
 * The tier is removed afterwards. Errors: as mp_tier_open and mp_copy_queue_wait. */
mp_status mp_link_measure_host(const char *folder, const mp_copy_queue_options *options, mp_link_speed *out, mp_error *err);
