/* backend.c - returns a backend for its name: the CPU's, or one that is loaded from a module for one device. */
#include "executor/backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/cpu/cpu.h"
#include "executor/kernel/backend.h"
#include "memplan/memory.h"

enum { PATH = 4096 };

MP_HANDLE_OWNER(dlclose, void *)

/* Writes the folder of the running program; "" if the system does not say. */
static void program_folder(char folder[PATH])
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH - 1);
    folder[n > 0 ? n : 0] = 0;
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
}

/* True if FOLDER/SUBFOLDER/memplan_NAME.so can be read; its path is then in `path`. */
static bool is_there(const char *folder, const char *subfolder, const char *name, char path[PATH])
{
    int n = snprintf(path, PATH, "%s%s/memplan_%s.so", folder, subfolder, name);
    return n > 0 && n < PATH && access(path, R_OK) == 0;
}

static bool find(const char *name, char path[PATH])
{
    char folder[PATH];
    const char *asked = getenv("MEMPLAN_MODULES");
    if (asked && *asked) return is_there(asked, "", name, path);
    program_folder(folder);
    return *folder && (is_there(folder, "", name, path) || is_there(folder, "/../lib/memplan", name, path));
}

mp_status mp_module_load(const char *name, int ordinal, mp_backend **out, mp_error *err)
{
    char path[PATH];
    MP_OWNED_BY(dlclose) void *module = NULL;
    MP_ENSURE(find(name, path), err, MP_UNSUPPORTED, "--device %s: this build has no GPU module (make CUDA=1)", name);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    MP_ENSURE(module, err, MP_UNSUPPORTED, "--device %s: the GPU module cannot be loaded: %s", name, dlerror());
    mp_module_entry *backend;
    void *symbol = dlsym(module, "mp_module_backend");
    MP_ENSURE(symbol, err, MP_UNSUPPORTED, "--device %s: '%s' is no module of this program", name, path);
    memcpy(&backend, &symbol, sizeof backend); /* ISO C has no conversion from an object pointer to a function pointer */
    MP_ENSURE(*out = backend(&mp_cpu, ordinal), err, MP_NOMEM, "out of memory");
    module = NULL;
    return MP_OK;
}

/* The backends that are modules, as --device names them, and those that have been opened, by device. */
static const char *const modules[] = {"cuda"};
enum { N_MODULES = sizeof modules / sizeof *modules, DEVICES = MP_BACKEND_LAST_DEVICE + 1 };
static mp_backend *opened[N_MODULES][DEVICES];

const char *mp_backend_name(size_t k)
{
    return k == 0 ? mp_cpu.name : k - 1 < N_MODULES ? modules[k - 1] : NULL;
}

/* Returns the index of the module that a name such as "cuda" or "cuda:1" means, and the device's number; -1: no module. */
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
