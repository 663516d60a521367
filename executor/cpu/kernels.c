/* kernels.c - finds an operator's row among the families. */
#include "executor/cpu/kernels.h"

#define TABLE(name) mp_cpu_##name,
static const mp_kernel *const families[] = {MP_CPU_FAMILIES(TABLE)};
#undef TABLE

const mp_kernel *mp_cpu_kernel(const mp_operator *op)
{
    return mp_kernel_find(families, sizeof families / sizeof *families, op);
}
