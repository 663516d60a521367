/* cuda_standin.c - a module for --device cuda without a GPU. It is the CPU's backend with an H100's profile, at the rates of
 * the backend's settings. */
#include "estimator/base/memory.h"
#include "executor/kernel/backend.h"

static mp_device profile;

static void settle(const mp_backend *self, const mp_backend_settings *settings)
{
    (void)self;
    profile.rates = settings->rates;
}

static const mp_device *device(const mp_backend *self)
{
    (void)self;
    return &profile;
}

mp_backend *mp_module_backend(const mp_backend *host, int ordinal)
{
    mp_backend *standin = mp_alloc(1, sizeof *standin);
    (void)ordinal;
    if (!standin) return NULL;
    *standin = *host;
    standin->name = "cuda";
    profile = *mp_device_find("h100");
    standin->settle = settle;
    standin->device = device;
    return standin;
}
