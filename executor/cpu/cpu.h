/* cpu.h - the CPU backend: oneDNN, and memplan's own kernels for all other operators. */
#pragma once

#include "executor/kernel/backend.h"

extern const mp_backend mp_cpu;
