/* deferring_backend.h - a backend with side streams on which nothing runs before it is waited for, for tests: another one,
 * whose updates, copies, sums and messages on the streams of channels are kept until the wait. So whatever they use must be
 * whole until then, and nobody may count on them before. What must not happen is a fault.
 */
#pragma once

#include "executor/kernel/backend.h"

/* A stream of a backend of tests (mp_backend's `stream`), as what stands in for a vendor's library sees it. */
typedef struct host_stream host_stream;
struct host_stream {
    /* Lets run(what) run when all that was enqueued before has; in a recording each time that it is replayed. */
    void (*enqueue)(host_stream *self, void (*run)(void *), void *what);
    int channel; /* on whose stream is enqueued now */
};

enum { DEFERRED_CALLS = 512, DEFERRED_UPDATES = 1024, DEFERRED_PARTS = 16384 };

typedef struct deferring_counts {
    int n_issued, n_updates, n_copies; /* calls on side streams, and updates of parameters and copies in them */
    int n_pinned;                      /* memory of pin that has not been given back */
    int n_faults;
} deferring_counts;

typedef struct deferrer {
    mp_backend backend; /* first */
    const mp_backend *inner;
    deferring_counts counted;
    host_stream stream;
    struct deferred_call {
        int channel, mark;
        bool has_run;
        int first, n; /* of `parts` */
    } calls[DEFERRED_CALLS];
    struct deferred_part {
        enum { DEFERRED_UPDATE, DEFERRED_COPY, DEFERRED_ADD, DEFERRED_MESSAGE } what;
        const void *from;
        void *to;
        int64_t n; /* bytes, elements, or updates */
        mp_dtype dtype;
        mp_update *updates;
        mp_update_factors factors;
        void (*run)(void *);
    } parts[DEFERRED_PARTS];
    mp_update updates[DEFERRED_UPDATES];
    int n_parts, n_updates;
    int n_calls;
    int channel;     /* whose stream is written to; 0: the main one */
    int skips_waits; /* every wait of this number is left out: what a test must see; 0: none */
    int n_waits;
} deferrer;

/* Makes the backend one whose memory is not the host's, so that what is copied to has to be pinned. */
void deferring_backend_is_away(deferrer *d);
/* Makes *d one on top of `inner`, and returns it as a backend. A deferrer is too large for the stack. */
const mp_backend *deferring_backend(deferrer *d, const mp_backend *inner);
