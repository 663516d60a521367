#include "executor/backend.h"

#include <string.h>

#include "executor/cpu/cpu.h"

const mp_backend *mp_backend_find(const char *name)
{
    return strcmp(name, mp_cpu.name) ? NULL : &mp_cpu;
}
