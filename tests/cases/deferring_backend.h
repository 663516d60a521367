/* deferring_backend.h - a backend with a second stream on which nothing runs before it is waited for, for tests: another one,
 * whose updates on the second stream are kept until the wait. So whatever they use must be whole until then, and nobody may
 * count on them before. What must not happen is a fault.
 */
#ifndef TESTS_DEFERRING_BACKEND_H
#define TESTS_DEFERRING_BACKEND_H

#include "executor/kernel/backend.h"

typedef struct deferring_counts {
    int n_issued, n_updates; /* calls on the second stream, and updates of parameters in them */
    int n_faults;
} deferring_counts;

extern deferring_counts deferring_counted;

/* The one on top of `inner`; one at a time. */
const mp_backend *deferring_backend(const mp_backend *inner);

#endif
