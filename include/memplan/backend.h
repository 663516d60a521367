/* backend.h - what runs a training step: the CPU, or a GPU's module, which is loaded when it is asked for.
 *
 *     const mp_backend *cpu;
 *     MP_CHECK(mp_backend_open("cpu", &cpu, err));
 *     MP_CHECK(mp_program_build(cpu, model, &options, loss, &program, err));
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_backend mp_backend;

/* Returns the name of backend k, also of one that this build lacks; NULL if k is beyond the last. */
const char *mp_backend_name(size_t k);
/* True if the name is that of a backend, or of one of its devices: "cpu", "cuda", "cuda:0" to "cuda:15". */
#define MP_BACKEND_LAST_DEVICE 15
bool mp_backend_is_name(const char *name);
/* Opens the backend of this name, and loads it if it is a module; "cuda:1" is its device of that number, "cuda" the
 * first. A name gives the same backend as long as the program runs. *out is NULL if there is no backend of this name.
 * MP_UNSUPPORTED: this build lacks its module, or cannot load it; MP_NOMEM. */
mp_status mp_backend_open(const char *name, const mp_backend **out, mp_error *err);
/* Returns the backend of this name as mp_backend_open does; NULL, without a reason, if there is none. */
const mp_backend *mp_backend_find(const char *name);
