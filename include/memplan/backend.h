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

/* The names of all backends, also of those that this build lacks; NULL: k is beyond the last. */
const char *mp_backend_name(size_t k);
/* True if it is the name of a backend, or of one of its devices: "cpu", "cuda", "cuda:0" to "cuda:15". */
#define MP_BACKEND_LAST_DEVICE 15
bool mp_backend_is_name(const char *name);
/* The backend of this name, loaded if it is a module; "cuda:1" is its device of that number, "cuda" the first. A name gives the
 * same backend as long as the program runs. *out NULL: there is no backend of this name. MP_UNSUPPORTED: this build lacks its
 * module, or cannot load it; MP_NOMEM. */
mp_status mp_backend_open(const char *name, const mp_backend **out, mp_error *err);
/* The same without a reason: NULL where there is none. */
const mp_backend *mp_backend_find(const char *name);
