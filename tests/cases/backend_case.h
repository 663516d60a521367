/* backend_case.h - the backend for kernel tests: "cpu", or the value of MEMPLAN_TEST_BACKEND ("cuda_twin", "cuda").
 *
 * Test data are in host memory. For a backend with its own memory, they are copied there and back around each call. */
#pragma once

#include "executor/kernel/backend.h"

/* Returns the opened backend; fails the test if it cannot be opened. */
const mp_backend *backend_of_tests(void);
/* Returns the backend of this name; NULL if it cannot be loaded or opened, with the reason in *err. */
const mp_backend *backend_named(const char *name, mp_error *err);

/* Returns a new twin, released with its `close`; NULL as above. */
mp_backend *backend_twin(mp_error *err);

/* Returns backend memory with a copy of these bytes, or `host` itself if the backend uses host memory. */
void *backend_bring(const mp_backend *backend, void *host, int64_t bytes);
/* Copies the bytes back into `host`, and releases the backend's memory. */
void backend_fetch(const mp_backend *backend, void *there, void *host, int64_t bytes);
