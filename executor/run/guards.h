/* guards.h - what shows that a step writes where it may not, or reads what is over: for tests. */
#pragma once

#include "executor/run/addresses.h"

/* Checks with guards that the bytes around what step t may have written are untouched. MP_REFUTED names the node. */
mp_status mp_addresses_check_guards(const mp_addresses *addresses, int t, mp_error *err);
/* Fills the instances that end with step t, on the device or in memory of the host's that no stream copies, with NaNs, except
 * where other live instances overlap them. O(places). */
void mp_addresses_poison(const mp_addresses *addresses, int t);
