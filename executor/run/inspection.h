/* inspection.h - checks on the memory of an execution: guard bytes, poisoning of dead instances, and hashes to compare two runs
 * or two ranks. */
#pragma once

#include "executor/run/addresses.h"

/* If the execution has guard bytes, checks that the guard bytes around the operands and the workspace of step t are unchanged.
 * MP_REFUTED: the message names the node. */
mp_status mp_addresses_check_guards(const mp_addresses *addresses, int t, mp_error *err);
/* Fills the instances whose lifetime ends with step t with NaNs, except bytes shared with live instances. Applies to instances
 * on the device and in host memory that no stream copies. O(places). */
void mp_addresses_poison(const mp_addresses *addresses, int t);
/* Writes a hash of all storages on the device that are always live and whose kind is in the bit set `kinds`, in the order of
 * the storages. */
void mp_addresses_hash(const mp_addresses *addresses, unsigned kinds, char hash[33]);
/* Compares the parameters of all ranks, bit for bit: whole parameters on all ranks, parts on the ranks that hold the same part,
 * and tied parameters on all stages that hold them. MP_INVALID: they differ; MP_IO: a rank has ended or does not answer. */
mp_status mp_addresses_compare(const mp_addresses *addresses, mp_communicator *world, double timeout, mp_error *err);
