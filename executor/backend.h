/* backend.h - loads a backend from a module, so that the program starts without the libraries of the device's vendor.
 *
 * The module (modules.h) exports one symbol, mp_module_backend, of type mp_module_entry. */
#pragma once

#include "executor/kernel/backend.h"

/* Creates a module's backend for the device with number `ordinal`; the caller releases it with its `close`. Errors: as
 * mp_module_symbol; MP_NOMEM. */
mp_status mp_module_load(const char *name, int ordinal, mp_backend **out, mp_error *err);
