#include "executor/cpu/kernels.h"

const mp_kernel mp_cpu_sources[] = {{0}};
