#include "executor/cuda/device/settings.h"

static mp_cuda_settings current = {.workspace_limit = INT64_C(256) << 20};

const mp_cuda_settings *mp_cuda_settings_get(void)
{
    return &current;
}

void mp_cuda_settings_set(const mp_cuda_settings *settings)
{
    current = *settings;
}
