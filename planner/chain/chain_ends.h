/* chain_ends.h - the positions at which the blocks of a chain end: cut tensors, or seams. */
#pragma once

#include "planner/order/boundaries.h"

/* Where blocks may end: at cut tensors, or at seams (chain_ends.c). */
typedef enum mp_chain_cut { MP_CHAIN_CUTS, MP_CHAIN_SEAMS, MP_N_CHAIN_CUTS } mp_chain_cut;

/* Ends of at most MP_CHAIN_BLOCKS blocks, the last one's not among them; *n_ends 0: there are none. `ends` has boundaries->n
 * elements. MP_NOMEM. O(list lengths). */
mp_status mp_chain_ends(const mp_boundaries *boundaries, mp_chain_cut cut, bool *ends, int *n_ends, mp_error *err);
