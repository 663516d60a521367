/* cuda_standin.c - a module for --device cuda without a GPU: the CPU's backend under that name, which accepts a GPU's settings.
 */
#include "estimator/base/memory.h"
#include "executor/kernel/backend.h"

static void settle(const mp_backend *self, const mp_backend_settings *settings)
{
    (void)self, (void)settings;
}

mp_backend *mp_module_backend(const mp_backend *host, int ordinal)
{
    mp_backend *standin = mp_alloc(1, sizeof *standin);
    (void)ordinal;
    if (!standin) return NULL;
    *standin = *host;
    standin->name = "cuda";
    standin->settle = settle;
    return standin;
}
