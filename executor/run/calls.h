/* calls.h - the calls of a pass, and the waits after each call. A pass runs the plan once, for one micro-batch. A call runs
 * one step of the plan, several consecutive updates, or a chain of steps that the backend runs as one launch. */
#pragma once

#include "executor/run/chains.h"

typedef struct mp_pass_call {
    size_t step,
        n_steps; /* the call runs the steps [step, step + n_steps) of the plan; n_steps > 1 only for updates and chains */
    const mp_call_chain_launch *chain; /* NULL: the call is not a chain */
    bool is_update;
    bool is_transfer; /* true: a copy between tiers or a collective; the channel runs it, not the backend's kernels */
    bool
        is_of_update; /* an update, a copy of optimizer state, or a gradient sum over ranks: runs only in passes with updates */
    int channel; /* channel on which the call runs beside others; MP_CHANNEL_COMPUTE: the call runs in the order of the plan */
    /* if the call runs on another channel than compute: the step of the plan before which the pass waits for the call */
    int end;
    int mark; /* number of this call among the calls of its channel, in order */
    size_t n_awaited;
    const int *awaited; /* indices of the calls that must have ended before the next call; a wait for a call includes all
                           earlier calls of the same channel */
} mp_pass_call;

typedef struct mp_calls {
    size_t n;
    mp_pass_call *list;
} mp_calls;

/* Lists the calls in the order of the plan. With `one_by_one`, every update is a separate call. Without `two_streams`, updates
 * run in order on the main stream. With `in_order`, the pass waits for each transfer directly after its start. With
 * `chains`, steps that the backend runs as one launch are one call. The list is allocated in the pool. MP_NOMEM. O(operands).
 */
mp_status mp_calls_of(const mp_addresses *addresses, bool one_by_one, bool two_streams, bool in_order, bool chains,
                      mp_pool *pool, mp_calls *out, mp_error *err);
