/* modules.h - finds and loads modules: shared libraries that belong to memplan and are loaded only when an option requests
 * them.
 *
 * A module is a shared library "memplan_NAME.so". It calls functions of the program that loads it; the program is linked with
 * -rdynamic so that modules find them. A module stays loaded until the process ends. Search path: the folder in the
 * environment variable MEMPLAN_MODULES if it is set, else the program's own folder, then ../lib/memplan beside it. */
#pragma once

#include "memplan/error.h"

/* Returns the address of a module's symbol in *out. For the message, `wanted` names the requester ("--device cuda"), `what` the
 * module ("GPU module"), and `how` the way to build it. MP_UNSUPPORTED, one sentence: the module does not exist, cannot be
 * loaded, or lacks the symbol. */
mp_status mp_module_symbol(const char *name, const char *symbol, const char *wanted, const char *what, const char *how,
                           void **out, mp_error *err);
