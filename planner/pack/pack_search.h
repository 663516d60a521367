/* pack_search.h - the search for offsets within a capacity. Internal to the packer. */
#pragma once

#include "planner/pack/pack_state.h"

typedef struct mp_pack_search mp_pack_search;

/* Returns NULL if out of memory. The state must outlive the search. The node limit in the options is ignored. */
mp_pack_search *mp_pack_search_new(mp_pack_state *state, const mp_pack_options *options);
void mp_pack_search_free(mp_pack_search *search); /* NULL is allowed */

/* Searches for a placement. For MP_PACK_PLACED the offsets are in state->lowest. Adds the visited nodes to *nodes. node_limit
 * (<= 0: none) limits the sum over all runs. *stopped: the caller ended the search, so that further runs are useless.
 * MP_NOMEM. */
mp_status mp_pack_search_run(mp_pack_search *search, int64_t capacity, int64_t node_limit, mp_pack_verdict *verdict,
                             int64_t *nodes, bool *stopped, mp_error *err);
