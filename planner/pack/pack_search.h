/* pack_search.h - the search for offsets within a capacity. Private to the packer. */
#pragma once

#include "planner/pack/pack_state.h"

typedef struct mp_pack_search mp_pack_search;

/* NULL: out of memory. The state must outlive it. Options: their node limit is not looked at. */
mp_pack_search *mp_pack_search_new(mp_pack_state *state, const mp_pack_options *options);
void mp_pack_search_free(mp_pack_search *search); /* NULL is fine */

/* On MP_PACK_PLACED the offsets are state->lowest. *nodes grows by what was looked at; the limits bound each run and the sum.
 * node_limit <= 0: none. stopped: by the caller, so that it makes no sense to go on. MP_NOMEM. */
mp_status mp_pack_search_run(mp_pack_search *search, int64_t capacity, int64_t node_limit, mp_pack_verdict *verdict,
                             int64_t *nodes, bool *stopped, mp_error *err);
