/* recording_backend.h - a backend that records passes, for tests: another one, whose calls are kept while it records, with
 * their operands, and run when the recording is replayed, with the seed, step and factors of the begin before. What must not be
 * used while it records is a fault.
 */
#ifndef TESTS_RECORDING_BACKEND_H
#define TESTS_RECORDING_BACKEND_H

#include "executor/kernel/backend.h"

typedef struct recording_counts {
    int n_recorded, n_replayed; /* recordings made, and run */
    int n_alive;                /* made and not discarded */
    int n_faults;
} recording_counts;

extern recording_counts recording_counted;
/* record fails with this after so many entries; < 0: never. */
extern int recording_fails_after;
/* From now on nothing comes back from its memory: the device is lost. */
extern bool recording_is_lost;
/* It says that its device has 1 TiB, of which this is used, and what it has allocated; of the process, nothing. */
enum { RECORDING_IDLE_BYTES = 12345 };
/* From now on it has no memory for more than this; < 0: it has. */
extern int64_t recording_limit;

/* The one on top of `inner`; one at a time. */
const mp_backend *recording_backend(const mp_backend *inner);

#endif
