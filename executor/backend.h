/* backend.h - a backend in a file of its own, which is loaded when it is asked for: what it needs of a vendor's libraries is
 * not needed to start the program.
 *
 * A module is a shared library "memplan_NAME.so" with one symbol, mp_module_backend (mp_module_entry). It uses the
 * library's own functions from the program that loads it, which is linked so that modules see them (-rdynamic).
 */
#pragma once

#include "executor/kernel/backend.h"

/* A new backend of a module for the device of this number, released with its `close`. The module is loaded once and stays so
 * until the process ends. Looked for in the folder that the environment's
 * MEMPLAN_MODULES names, else in that of the program and in ../lib/memplan from there. MP_UNSUPPORTED: there is none, or it
 * cannot be loaded; one sentence says why. MP_NOMEM. */
mp_status mp_module_load(const char *name, int ordinal, mp_backend **out, mp_error *err);
