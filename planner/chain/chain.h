/* chain.h - the searcher `chain`: Beaumont et al. 2019, the cheapest persistent schedule of a chain of blocks in a given
 * memory. */
#pragma once

#include "planner/chain/chain_table.h"
#include "planner/order/boundaries.h"

/* Where blocks may end: at cut tensors, or at seams (chain.c). */
typedef enum mp_chain_cut { MP_CHAIN_CUTS, MP_CHAIN_SEAMS, MP_N_CHAIN_CUTS } mp_chain_cut;

/* Ends of at most MP_CHAIN_BLOCKS blocks, the last one's not among them; *n_ends 0: there are none. `ends` has boundaries->n
 * elements. MP_NOMEM. O(list lengths). */
mp_status mp_chain_ends(const mp_boundaries *boundaries, mp_chain_cut cut, bool *ends, int *n_ends, mp_error *err);

/* The schedule, updates included; *steps is released with mp_free. `slots` must suffice. MP_NOMEM. O(steps). */
mp_status mp_chain_schedule(const mp_chain_table *table, int slots, mp_step **steps, size_t *n, mp_error *err);
