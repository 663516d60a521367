/* calls.h - the calls of a pass: one per step of a plan, or for several consecutive updates, and what is waited for after each.
 */
#pragma once

#include "executor/run/addresses.h"

/* Updates run on the main stream or on the side stream. */
typedef struct mp_pass_call {
    size_t step, n_steps; /* [step, step + n_steps) of the plan; n_steps > 1 only for updates */
    bool is_update, is_side, is_copy;
    int wait; /* after the call the main stream waits for this mark (the number of a call on the side stream); -1: no wait */
    size_t n_awaited;
    const int *awaited; /* the steps whose copies are waited for after the call */
} mp_pass_call;

typedef struct mp_calls {
    size_t n;
    mp_pass_call *list;
} mp_calls;

/* Lists the calls in the order of the plan. `one_by_one` gives every update a call of its own; without `two_streams` all run
 * on the main stream, and with `in_order` every copy is waited for at once. The list is in the pool. MP_NOMEM. O(steps). */
mp_status mp_calls_of(const mp_addresses *addresses, bool one_by_one, bool two_streams, bool in_order, mp_pool *pool,
                      mp_calls *out, mp_error *err);
