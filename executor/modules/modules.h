/* modules.h - finds and loads shared libraries that are part of the program, but only where they are asked for.
 *
 * A module is a shared library "memplan_NAME.so". It uses the library's own functions from the program that loads it, which is
 * linked so that modules see them (-rdynamic), and stays loaded until the process ends. It is searched for in the folder that
 * the environment's MEMPLAN_MODULES names, or else in the program's own folder, and in ../lib/memplan beside it. */
#pragma once

#include "memplan/error.h"

/* Gives the address of a module's symbol. `wanted` says what needs it, "--device cuda", `what` what it is, "GPU module", and
 * `how` how it is built. MP_UNSUPPORTED, one sentence: there is no such module, or it cannot be loaded, or lacks the symbol. */
mp_status mp_module_symbol(const char *name, const char *symbol, const char *wanted, const char *what, const char *how,
                           void **out, mp_error *err);
