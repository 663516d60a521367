/* inspection.h - what is looked at in an execution's memory: bytes that a step may not write, what is over, hashes by which two
 * runs, or two ranks, are compared. */
#pragma once

#include "executor/run/addresses.h"

/* Checks with guards that the bytes around what step t may have written are untouched. MP_REFUTED names the node. */
mp_status mp_addresses_check_guards(const mp_addresses *addresses, int t, mp_error *err);
/* Fills the instances that end with step t, on the device or in memory of the host's that no stream copies, with NaNs, except
 * where other live instances overlap them. O(places). */
void mp_addresses_poison(const mp_addresses *addresses, int t);
/* Writes a hash over the bytes of all storages on the device that always live and are of these kinds (bits), in their order. */
void mp_addresses_hash(const mp_addresses *addresses, unsigned kinds, char hash[33]);
/* Compares the parameters of all ranks, bit for bit; parts with those of ranks that have the same ones, and those of several
 * stages of a pipeline on all of them. MP_INVALID: they differ; MP_IO: a rank has ended, or is silent. */
mp_status mp_addresses_compare(const mp_addresses *addresses, mp_communicator *world, double timeout, mp_error *err);
