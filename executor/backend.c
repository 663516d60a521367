/* backend.c - the table of backends: the CPU, and those that are modules, one for each of their devices. */
#include "executor/kernel/backend.h"

#include <stdlib.h>
#include <string.h>

#include "executor/cpu/cpu.h"
#include "executor/module.h"

/* Backends that are modules, as --device names them; those of their devices that have been opened. */
static const char *const modules[] = {"cuda"};
enum { N_MODULES = sizeof modules / sizeof *modules, DEVICES = MP_BACKEND_LAST_DEVICE + 1 };
static mp_backend *opened[N_MODULES][DEVICES];

const char *mp_backend_name(size_t k)
{
    return k == 0 ? mp_cpu.name : k - 1 < N_MODULES ? modules[k - 1] : NULL;
}

/* Which module "cuda" and "cuda:1" mean, and which of its devices; -1: none. */
static int module_of(const char *name, int *ordinal)
{
    const char *colon = strchr(name, ':');
    const size_t n = colon ? (size_t)(colon - name) : strlen(name);
    char *end = NULL;
    const long number = colon && colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : 0;
    if (colon && (!end || *end || number >= DEVICES)) return -1;
    *ordinal = (int)number;
    for (int k = 0; k < N_MODULES; k++)
        if (strlen(modules[k]) == n && !strncmp(name, modules[k], n)) return k;
    return -1;
}

bool mp_backend_is_name(const char *name)
{
    int ordinal;
    return !strcmp(name, mp_cpu.name) || module_of(name, &ordinal) >= 0;
}

mp_status mp_backend_open(const char *name, const mp_backend **out, mp_error *err)
{
    int ordinal, module = module_of(name, &ordinal);
    *out = strcmp(name, mp_cpu.name) ? NULL : &mp_cpu;
    if (module < 0) return MP_OK;
    mp_backend **at = &opened[module][ordinal];
    if (!*at) MP_CHECK(mp_module_load(modules[module], ordinal, at, err));
    *out = *at;
    return MP_OK;
}

const mp_backend *mp_backend_find(const char *name)
{
    const mp_backend *backend = NULL;
    return mp_backend_open(name, &backend, NULL) == MP_OK ? backend : NULL;
}
