/* device_twin.c - a module that replaces the GPU's: the CPU's backend, with streams that run nothing before they are awaited,
 * and with recorded passes. With MEMPLAN_TWIN_HANGS its work never ends. */
#include <stdlib.h>

#include "tests/cases/deferring_backend.h"
#include "tests/cases/recording_backend.h"

static deferrer streams;
static recorder device;

static void settle(const mp_backend *self, const mp_backend_settings *settings)
{
    (void)self, (void)settings;
}

static mp_status has_run(const mp_backend *self, bool *all, mp_error *err)
{
    (void)self, (void)err;
    *all = !getenv("MEMPLAN_TWIN_HANGS");
    return MP_OK;
}

/* Aborts the process at the end of its steps if a fault was counted. */
static void look_for_faults(void)
{
    if (streams.counted.n_faults + device.counted.n_faults) abort();
}

__attribute__((visibility("default"))) mp_backend *mp_module_backend(const mp_backend *host, int ordinal)
{
    const mp_backend *away = deferring_backend(&streams, host);
    (void)ordinal;
    deferring_backend_is_away(&streams);
    streams.backend.close = NULL;
    recording_backend(&device, away);
    device.backend.name = "cuda";
    device.backend.settle = settle;
    device.backend.has_run = has_run;
    device.backend.memory = NULL;
    atexit(look_for_faults);
    return &device.backend;
}
