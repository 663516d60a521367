/* bodies_cpu.c - defines the CPU kernels of the operators in bodies.h, which are written once for all backends. */
#include "executor/cpu/base/bodies.h"

#include "executor/cpu/base/families.h"
#include "executor/operators/bodies.h"

MP_BODY_KERNELS

const mp_kernel mp_cpu_bodies[] = {MP_BODY_ROWS{0}};
