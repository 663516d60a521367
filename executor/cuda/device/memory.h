/* memory.h - what the card's memory holds. */
#pragma once

#include "executor/kernel/backend.h"

/* As in mp_backend; the process's own share is NVML's word (libnvidia-ml.so.1, loaded if it is there). */
mp_status mp_cuda_memory(const mp_backend *self, mp_backend_memory *now, mp_error *err);
