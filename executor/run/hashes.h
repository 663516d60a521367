/* hashes.h - hashes of what always lives in an execution, by which two runs, or two ranks, are compared. */
#pragma once

#include "executor/run/addresses.h"

/* Writes a hash over the bytes of all storages on the device that always live and are of these kinds (bits), in their order. */
void mp_addresses_hash(const mp_addresses *addresses, unsigned kinds, char hash[33]);
