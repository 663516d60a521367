/* calls.h - the calls of a pass, and the waits after each call. A call runs one step of a plan, or several consecutive updates.
 */
#pragma once

#include "executor/run/addresses.h"

typedef struct mp_pass_call {
    size_t step, n_steps; /* the call runs the steps [step, step + n_steps) of the plan; n_steps > 1 only for updates */
    bool is_update;
    bool is_transfer; /* a copy between tiers or a collective; the channel runs it, not the backend's kernels */
    bool
        is_of_update; /* an update, a copy of optimizer state, or a gradient sum over ranks: runs only in passes with updates */
    int channel;      /* channel of an issued call; MP_CHANNEL_COMPUTE: the call runs in order */
    int end;          /* of an issued call: the pass waits for it before this step */
    int mark;         /* index of the call among the calls of its channel */
    size_t n_awaited;
    const int
        *awaited; /* the calls that must have ended before the next call; each wait includes all earlier calls of its channel */
} mp_pass_call;

typedef struct mp_calls {
    size_t n;
    mp_pass_call *list;
} mp_calls;

/* Lists the calls in the order of the plan. `one_by_one`: every update is a call of its own. Without `two_streams`, updates run
 * in order on the main stream. `in_order`: every transfer is waited for immediately. The list is allocated in the pool.
 * MP_NOMEM. O(steps). */
mp_status mp_calls_of(const mp_addresses *addresses, bool one_by_one, bool two_streams, bool in_order, mp_pool *pool,
                      mp_calls *out, mp_error *err);
