/* agreed.h - the options on which the ranks of one training must agree. */
#pragma once

#include "cli/options/options.h"
#include "memplan/ranks/communicator.h"

/* Writes one fact per option that the table marks with `agrees` to facts[0..N_OPTIONS): its name and its value as text, which
 * `pool` owns. MP_NOMEM. */
mp_status options_facts(const options *o, mp_pool *pool, mp_fact *facts, size_t *n, mp_error *err);
