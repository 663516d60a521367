/* bodies_cpu.c - the operators of bodies.h on the CPU. */
#include "executor/cpu/base/bodies.h"

#include "executor/cpu/base/families.h"
#include "executor/operators/bodies.h"

MP_BODIES(MP_BODY_KERNEL)
MP_CHECKED_BODIES(MP_CHECKED_BODY_KERNEL)

const mp_kernel mp_cpu_bodies[] = {MP_BODIES(MP_BODY_ROW) MP_CHECKED_BODIES(MP_BODY_ROW){0}};
