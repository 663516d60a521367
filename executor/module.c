/* module.c - finds the file of a module, and loads it. */
#include "executor/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/cpu/cpu.h"
#include "memplan/memory.h"

enum { PATH = 4096 };

MP_HANDLE_OWNER(dlclose, void *)

/* The folder of the program that runs; "" if the system does not say. */
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
    memcpy(&backend, &symbol, sizeof backend); /* ISO C has no conversion between them */
    MP_ENSURE(*out = backend(&mp_cpu, ordinal), err, MP_NOMEM, "out of memory");
    module = NULL;
    return MP_OK;
}
