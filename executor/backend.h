/* backend.h - loads a backend from a module, so that the program starts without the libraries of the device's vendor.
 *
 * A module is a shared library "memplan_NAME.so" with one symbol, mp_module_backend (mp_module_entry). It uses the library's
 * own functions from the program that loads it, which is linked so that modules see them (-rdynamic). */
#pragma once

#include "executor/kernel/backend.h"

/* Creates a backend of a module for the device of this number; the caller releases it with its `close`. The module is loaded
 * once and stays loaded until the process ends. It is searched for in the folder that the environment's MEMPLAN_MODULES
 * names, else in that of the program and in ../lib/memplan from there. MP_UNSUPPORTED: there is none, or it cannot be
 * loaded; the message says why. MP_NOMEM. */
mp_status mp_module_load(const char *name, int ordinal, mp_backend **out, mp_error *err);
