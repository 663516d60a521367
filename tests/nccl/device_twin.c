/* device_twin.c - a module in the place of the GPU's: the CPU's backend, with streams on which nothing runs before it is waited
 * for, and recordings of its passes. With MEMPLAN_TWIN_HANGS nothing ever ends there. */
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

/* What must not happen ends the process when its steps are over, with a failure. */
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
