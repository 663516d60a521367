/* settings.c - reads the settings of the calling thread's backend. */
#include "executor/cuda/device/settings.h"

#include "executor/cuda/device/context.h"

const mp_cuda_settings *mp_cuda_settings_get(void)
{
    return &mp_cuda_current()->settings;
}
