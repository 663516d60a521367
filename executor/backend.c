/* backend.c - the table of backends: the CPU, and those that are modules. */
#include "executor/kernel/backend.h"

#include <string.h>

#include "executor/cpu/cpu.h"
#include "executor/module.h"

/* Backends that are modules, as --device names them; those that have been loaded. */
static const char *const modules[] = {"cuda"};
enum { N_MODULES = sizeof modules / sizeof *modules };
static const mp_backend *loaded[N_MODULES];

const char *mp_backend_name(size_t k)
{
    return k == 0 ? mp_cpu.name : k - 1 < N_MODULES ? modules[k - 1] : NULL;
}

mp_status mp_backend_open(const char *name, const mp_backend **out, mp_error *err)
{
    mp_status st = MP_OK;
    *out = strcmp(name, mp_cpu.name) ? NULL : &mp_cpu;
    for (size_t k = 0; k < N_MODULES; k++) {
        if (strcmp(name, modules[k])) continue;
        if (!loaded[k]) MP_TRY(mp_module_load(name, &loaded[k], err));
        *out = loaded[k];
    }
done:
    return st;
}

const mp_backend *mp_backend_find(const char *name)
{
    const mp_backend *backend = NULL;
    return mp_backend_open(name, &backend, NULL) == MP_OK ? backend : NULL;
}
