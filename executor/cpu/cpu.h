/* cpu.h - the CPU backend: oneDNN, and own kernels where it has none. */
#ifndef EXECUTOR_CPU_CPU_H
#define EXECUTOR_CPU_CPU_H

#include "executor/kernel/backend.h"

extern const mp_backend mp_cpu;

#endif
