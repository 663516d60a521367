/* backend.h - backends execute a training step: the CPU, or a GPU module that is loaded on request.
 *
 *     // given: mp_model *model; const mp_training_options *options; int loss; mp_error *err
 *     const mp_backend *cpu;
 *     mp_program *program = NULL;
 *     MP_CHECK(mp_backend_open("cpu", &cpu, err));
 *     MP_CHECK(mp_program_build(cpu, model, options, loss, &program, err));
 *     mp_program_free(program);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_backend mp_backend;

/* Returns the name of backend k, even if this build of memplan does not contain the backend. NULL: k is beyond the last
 * backend. */
const char *mp_backend_name(size_t k);
/* True if `name` is the name of a backend or of one of its devices: "cpu", "cuda", "cuda:0" to "cuda:15". */
#define MP_BACKEND_LAST_DEVICE 15
bool mp_backend_is_name(const char *name);
/* Finds the backend with this name, and loads its module if necessary. "cuda:1" is device 1 of the backend, "cuda" is device 0.
 * Repeated calls with the same name return the same backend. *out NULL: no backend has this name. MP_UNSUPPORTED: this build
 * lacks the module, or cannot load it. MP_NOMEM. */
mp_status mp_backend_open(const char *name, const mp_backend **out, mp_error *err);
/* Like mp_backend_open, but returns the backend, or NULL on any failure. The reason for a failure is lost. */
const mp_backend *mp_backend_find(const char *name);
