/* deferring_backend.h - a backend with side streams on which nothing runs before it is waited for, for tests: another one,
 * whose updates and copies on the streams of channels are kept until the wait. So whatever they use must be whole until then,
 * and nobody may count on them before. What must not happen is a fault.
 */
#pragma once

#include "executor/kernel/backend.h"

enum { DEFERRED_CALLS = 512, DEFERRED_UPDATES = 256, DEFERRED_COPIES = 4 };

typedef struct deferring_counts {
    int n_issued, n_updates, n_copies; /* calls on side streams, and updates of parameters and copies in them */
    int n_pinned;                      /* memory of pin that has not been given back */
    int n_faults;
} deferring_counts;

typedef struct deferrer {
    mp_backend backend; /* first */
    const mp_backend *inner;
    deferring_counts counted;
    struct deferred_call {
        int channel, mark;
        bool has_run;
        mp_update updates[DEFERRED_UPDATES];
        size_t n;
        mp_update_factors factors;
        struct deferred_copy {
            void *to;
            const void *from;
            int64_t bytes;
        } copies[DEFERRED_COPIES];
        size_t n_copies;
    } calls[DEFERRED_CALLS];
    int n_calls;
    int channel;     /* whose stream is written to; 0: the main one */
    int skips_waits; /* every wait of this number is left out: what a test must see; 0: none */
    int n_waits;
} deferrer;

/* Makes the backend one whose memory is not the host's, so that what is copied to has to be pinned. */
void deferring_backend_is_away(deferrer *d);
/* Makes *d one on top of `inner`, and returns it as a backend. A deferrer is too large for the stack. */
const mp_backend *deferring_backend(deferrer *d, const mp_backend *inner);
