/* recording_backend.h - a test backend that records passes. It wraps another backend. While it records, calls and their
 * operands are stored. A replay runs them with the seed, step and factors of the latest begin. Functions that are forbidden
 * while recording count as faults. Several recorders may exist, also on top of one another. */
#pragma once

#include "executor/kernel/backend.h"
#include "tests/cases/deferring_backend.h"

/* The reported device has 1 TiB, of which this constant and its own allocations are in use. It reports no process memory. */
enum { RECORDING_IDLE_BYTES = 12345 };

typedef struct recording_counts {
    int n_recorded, n_replayed; /* recordings made, and replayed */
    int n_alive;                /* recordings not yet discarded */
    int n_faults;
} recording_counts;

typedef struct recorder {
    mp_backend backend; /* must be first */
    const mp_backend *inner;
    recording_counts counted;
    int fails_after; /* recording fails after this many entries; < 0: never */
    bool is_lost;    /* simulates a lost device: no reads from its memory succeed */
    int64_t limit;   /* largest total allocation; < 0: no limit */
    int64_t allocated;
    host_stream stream;
    struct recording *current; /* NULL: not recording */
    uint64_t seed;
    uint32_t step;
    mp_update_factors factors;
    bool has_factors;
} recorder;

/* Initializes *r on top of `inner` and returns it as a backend. */
const mp_backend *recording_backend(recorder *r, const mp_backend *inner);
