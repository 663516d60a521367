/* cuda_standin.c - a module that --device cuda finds where there is no GPU: the CPU's backend under that name, which accepts
 * the settings of one. */
#include "executor/kernel/backend.h"

static mp_backend standin;

static void settle(const mp_backend_settings *settings)
{
    (void)settings;
}

const mp_backend *mp_module_backend(const mp_backend *host)
{
    standin = *host;
    standin.name = "cuda";
    standin.settle = settle;
    return &standin;
}
