/* backend.h - loads a backend from a module, so that the program starts without the libraries of the device's vendor.
 *
 * Its module (modules.h) has one symbol, mp_module_backend (mp_module_entry). */
#pragma once

#include "executor/kernel/backend.h"

/* Creates a backend of a module for the device of this number; the caller releases it with its `close`. Fails as
 * mp_module_symbol; MP_NOMEM. */
mp_status mp_module_load(const char *name, int ordinal, mp_backend **out, mp_error *err);
