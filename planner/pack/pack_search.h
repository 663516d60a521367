/* pack_search.h - internal to the packer: a branch-and-bound search for the offsets of all items within a given capacity. */
#pragma once

#include "planner/pack/pack_state.h"

typedef struct mp_pack_search mp_pack_search;

/* Creates a search that works on a state. Returns NULL if out of memory. The state must outlive the search. The node limit in
 * `options` is ignored. */
mp_pack_search *mp_pack_search_new(mp_pack_state *state, const mp_pack_options *options);
void mp_pack_search_free(mp_pack_search *search); /* NULL is allowed */

/* Searches for offsets of all boxes within `capacity`. If the verdict is MP_PACK_PLACED, the offsets are in state->lowest. Adds
 * the visited nodes of the search tree to *nodes. The search ends when *nodes reaches node_limit (<= 0: no limit). *stopped:
 * the caller's `stop` ended the search, so the caller should not continue. MP_NOMEM. */
mp_status mp_pack_search_run(mp_pack_search *search, int64_t capacity, int64_t node_limit, mp_pack_verdict *verdict,
                             int64_t *nodes, bool *stopped, mp_error *err);
