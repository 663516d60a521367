/* cpu.h - the CPU backend: oneDNN, and own kernels where it has none. */
#pragma once

#include "executor/kernel/backend.h"

extern const mp_backend mp_cpu;
