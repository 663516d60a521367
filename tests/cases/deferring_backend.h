/* deferring_backend.h - a test backend whose side streams run nothing before they are awaited. It wraps another backend.
 * Updates, copies, sums and messages on channel streams are kept until the wait. Their operands must therefore stay intact
 * until then, and their results must not be used before. Violations count as faults. */
#pragma once

#include "executor/kernel/backend.h"

/* A stream of a test backend (mp_backend's `stream`), as seen by a replacement of a vendor's library. */
typedef struct host_stream host_stream;
struct host_stream {
    /* Enqueues run(what) after all earlier calls. In a recording it runs at each replay. */
    void (*enqueue)(host_stream *self, void (*run)(void *), void *what);
    int channel; /* channel whose stream is being written */
};

enum { DEFERRED_CALLS = 512, DEFERRED_UPDATES = 1024, DEFERRED_PARTS = 16384 };

typedef struct deferring_counts {
    int n_issued, n_updates, n_copies; /* calls on side streams, and the updates and copies in them */
    int n_pinned;                      /* pinned memory that has not been released */
    int n_faults;
} deferring_counts;

typedef struct deferrer {
    mp_backend backend; /* must be first */
    const mp_backend *inner;
    deferring_counts counted;
    host_stream stream;
    struct deferred_call {
        int channel, mark;
        bool has_run;
        int first, n; /* range of `parts` */
    } calls[DEFERRED_CALLS];
    struct deferred_part {
        enum { DEFERRED_UPDATE, DEFERRED_COPY, DEFERRED_ADD, DEFERRED_MESSAGE } what;
        const void *from;
        void *to;
        int64_t n; /* number of bytes, elements, or updates */
        mp_dtype dtype;
        mp_update *updates;
        mp_update_factors factors;
        void (*run)(void *);
    } parts[DEFERRED_PARTS];
    mp_update updates[DEFERRED_UPDATES];
    int n_parts, n_updates;
    int n_calls;
    int channel;     /* channel whose stream is being written; 0: the main one */
    int skips_waits; /* omits each wait of this number, a fault that tests must detect; 0: none */
    int n_waits;
} deferrer;

/* Makes the backend's memory differ from the host's, so that copies need pinned host memory. */
void deferring_backend_is_away(deferrer *d);
/* Initializes *d on top of `inner` and returns it as a backend. A deferrer is too large for the stack. */
const mp_backend *deferring_backend(deferrer *d, const mp_backend *inner);
