/* calls.h - the calls of a pass: one per step of a plan, or for several consecutive updates, and what is waited for after each.
 */
#pragma once

#include "executor/run/addresses.h"

typedef struct mp_pass_call {
    size_t step, n_steps; /* [step, step + n_steps) of the plan; n_steps > 1 only for updates */
    bool is_update;
    bool is_transfer;  /* a copy, or a collective: the channel runs it, not the backend */
    bool is_of_update; /* an update, a copy of its state, or a sum over ranks: only in passes that update */
    int channel;       /* on which it is issued; MP_CHANNEL_COMPUTE: it runs in order */
    int end;           /* of one that is issued: the step before which it is waited for */
    int mark;          /* its number among the calls of its channel */
    size_t n_awaited;
    const int *awaited; /* the calls that are waited for after this one, with all before them on their channels */
} mp_pass_call;

typedef struct mp_calls {
    size_t n;
    mp_pass_call *list;
} mp_calls;

/* Lists the calls in the order of the plan. `one_by_one` gives every update a call of its own; without `two_streams` updates
 * are not issued, and with `in_order` every transfer is waited for at once. The list is in the pool. MP_NOMEM. O(steps). */
mp_status mp_calls_of(const mp_addresses *addresses, bool one_by_one, bool two_streams, bool in_order, mp_pool *pool,
                      mp_calls *out, mp_error *err);
