/* workload_mesh.h - the ranks of a workload: its mesh, network and way of summing. */
#pragma once

#include "executor/workload/own_device.h"
#include "memplan/workload.h"

/* Reads a network: a known network, or a .json file. As mp_network_read and mp_network_json_read. */
mp_status mp_workload_network(const char *name, mp_interconnect *out, mp_error *err);
/* Sets the ranks of the workload from the settings of the mesh. Without a mesh, it is a mesh of one device. MP_INVALID: a
 * setting of ranks is given without a mesh. Other errors as mp_network_read. */
mp_status mp_workload_mesh(const mp_workload_options *o, const mp_own_device *device, mp_ranks *out, mp_error *err);
