/* recording_backend.h - a backend that records passes, for tests: another one, whose calls are kept while it records, with
 * their operands, and run when the recording is replayed, with the seed, step and factors of the begin before. What must not be
 * used while it records is a fault. Several may be there side by side, one over the other too.
 */
#pragma once

#include "executor/kernel/backend.h"
#include "tests/cases/deferring_backend.h"

/* It says that its device has 1 TiB, of which this is used, and what it has allocated; of the process, nothing. */
enum { RECORDING_IDLE_BYTES = 12345 };

typedef struct recording_counts {
    int n_recorded, n_replayed; /* recordings made, and run */
    int n_alive;                /* made and not discarded */
    int n_faults;
} recording_counts;

typedef struct recorder {
    mp_backend backend; /* first */
    const mp_backend *inner;
    recording_counts counted;
    int fails_after; /* recording fails with this after so many entries; < 0: never */
    bool is_lost;    /* nothing comes back from its memory: the device is lost */
    int64_t limit;   /* it has no memory for more than this; < 0: it has */
    int64_t allocated;
    host_stream stream;
    struct recording *current; /* NULL: nothing is being recorded */
    uint64_t seed;
    uint32_t step;
    mp_update_factors factors;
    bool has_factors;
} recorder;

/* Makes *r one on top of `inner`, and returns it as a backend. */
const mp_backend *recording_backend(recorder *r, const mp_backend *inner);
