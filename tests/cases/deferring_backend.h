/* deferring_backend.h - a backend with a second stream on which nothing runs before it is waited for, for tests: another one,
 * whose updates on the second stream are kept until the wait. So whatever they use must be whole until then, and nobody may
 * count on them before. What must not happen is a fault.
 */
#pragma once

#include "executor/kernel/backend.h"

enum { DEFERRED_CALLS = 256, DEFERRED_UPDATES = 256 };

typedef struct deferring_counts {
    int n_issued, n_updates; /* calls on the second stream, and updates of parameters in them */
    int n_faults;
} deferring_counts;

typedef struct deferrer {
    mp_backend backend; /* first */
    const mp_backend *inner;
    deferring_counts counted;
    struct deferred_call {
        int mark;
        mp_update updates[DEFERRED_UPDATES];
        size_t n;
        mp_update_factors factors;
    } calls[DEFERRED_CALLS];
    int n_calls, n_run; /* calls[n_run .. n_calls) wait */
    bool on_second;
} deferrer;

/* Makes *d one on top of `inner`, and returns it as a backend. A deferrer is too large for the stack. */
const mp_backend *deferring_backend(deferrer *d, const mp_backend *inner);
