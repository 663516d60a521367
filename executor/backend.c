/* backend.c - returns a backend by name: the CPU's, or a backend loaded from a module for one device. */
#include "executor/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/cpu/cpu.h"
#include "executor/modules/modules.h"

mp_status mp_module_load(const char *name, int ordinal, mp_backend **out, mp_error *err)
{
    char wanted[64];
    void *symbol;
    mp_module_entry *backend;
    snprintf(wanted, sizeof wanted, "--device %s", name);
    MP_CHECK(mp_module_symbol(name, "mp_module_backend", wanted, "GPU module", "make CUDA=1", &symbol, err));
    /* memcpy converts the symbol, because ISO C cannot convert an object pointer to a function pointer */
    memcpy(&backend, &symbol, sizeof backend);
    MP_ENSURE(*out = backend(&mp_cpu, ordinal), err, MP_NOMEM, "out of memory");
    return MP_OK;
}

/* The names of the backends that are modules, as in --device, and the opened backends by module and device. */
static const char *const modules[] = {"cuda"};
enum { N_MODULES = sizeof modules / sizeof *modules, DEVICES = MP_BACKEND_LAST_DEVICE + 1 };
static mp_backend *opened[N_MODULES][DEVICES];

const char *mp_backend_name(size_t k)
{
    return k == 0 ? mp_cpu.name : k - 1 < N_MODULES ? modules[k - 1] : NULL;
}

/* Returns the index in modules[] of a name such as "cuda" or "cuda:1", and writes the device's number to *ordinal. -1: no
 * module has this name. */
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
