/* backend.h - what runs a training step: the CPU, or a GPU's module, which is loaded when it is asked for.
 *
 *     const mp_backend *cpu;
 *     MP_TRY(mp_backend_open("cpu", &cpu, err));
 *     MP_TRY(mp_program_build(cpu, model, &options, loss, &program, err));
 */
#ifndef MEMPLAN_BACKEND_H
#define MEMPLAN_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

typedef struct mp_backend mp_backend;

/* The names of all backends, also of those that this build lacks; NULL: k is beyond the last. */
const char *mp_backend_name(size_t k);
/* The backend of this name, loaded if it is a module; *out NULL: there is no backend of this name. MP_UNSUPPORTED: this build
 * lacks its module, or cannot load it. */
mp_status mp_backend_open(const char *name, const mp_backend **out, mp_error *err);
/* The same without a reason: NULL where there is none. */
const mp_backend *mp_backend_find(const char *name);

#endif
