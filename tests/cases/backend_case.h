/* backend_case.h - the backend that tests of kernels run on: "cpu", or what MEMPLAN_TEST_BACKEND says ("cuda_twin", "cuda").
 *
 * Test data lies in the host's memory; for a backend whose memory is its own it is brought there and back around each call.
 */
#pragma once

#include "executor/kernel/backend.h"

/* Opened; the failure of the test, if it cannot be. */
const mp_backend *backend_of_tests(void);
/* The same by name; NULL if it cannot be loaded or opened, with the reason in *err. */
const mp_backend *backend_named(const char *name, mp_error *err);

/* A new twin, released with its `close`; NULL as above. */
mp_backend *backend_twin(mp_error *err);

/* Memory there with these bytes; the host's own memory, if the backend's is that. */
void *backend_bring(const mp_backend *backend, void *host, int64_t bytes);
/* Takes the bytes back into `host`, and releases what was there. */
void backend_fetch(const mp_backend *backend, void *there, void *host, int64_t bytes);
