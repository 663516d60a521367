#include "executor/cpu/kernels.h"

const mp_kernel mp_cpu_samplings[] = {{0}};
