/* chain.h - the searcher `chain`: Beaumont et al. 2019, the cheapest persistent schedule of a chain of blocks in a given
 * memory. */
#pragma once

#include "planner/chain/chain_table.h"

/* The schedule, updates included; *steps is released with mp_free. `slots` must suffice. MP_NOMEM. O(steps). */
mp_status mp_chain_schedule(const mp_chain_table *table, int slots, mp_step **steps, size_t *n, mp_error *err);

/* MP_NOT_APPLICABLE: nothing cuts the network in two. Else errors as mp_search_offer. O(blocks^3 * slots + offers). */
mp_status mp_run_chain(mp_search *search, mp_error *err);
