/* modules.c - finds a module beside the program, and loads it. */
#include "executor/modules/modules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memplan/memory.h"

enum { PATH = 4096 };

MP_HANDLE_OWNER(dlclose, void *)

/* Writes the folder of the running program; "" if the system does not report it. */
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

mp_status mp_module_symbol(const char *name, const char *symbol, const char *wanted, const char *what, const char *how,
                           void **out, mp_error *err)
{
    char path[PATH];
    MP_OWNED_BY(dlclose) void *module = NULL;
    MP_ENSURE(find(name, path), err, MP_UNSUPPORTED, "%s: this build has no %s (%s)", wanted, what, how);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    MP_ENSURE(module, err, MP_UNSUPPORTED, "%s: the %s cannot be loaded: %s", wanted, what, dlerror());
    *out = dlsym(module, symbol);
    MP_ENSURE(*out, err, MP_UNSUPPORTED, "%s: '%s' is not a module of this program", wanted, path);
    module = NULL;
    return MP_OK;
}
