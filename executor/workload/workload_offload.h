/* workload_offload.h - the copies of a workload: their tiers, links and rates. */
#pragma once

#include "memplan/workload.h"
#include "memplan/workloads/own_device.h"

/* Reads `offload` and `link` for a caller that can only offload to host memory. *has_host is false if `offload` is not given.
 * *bytes is the limit of host memory; 0: no limit. MP_INVALID: as mp_workload_offload, or `offload` names the disk. */
mp_status mp_workload_host(const mp_workload_options *o, const mp_own_device *device, bool *has_host, mp_link *link,
                           int64_t *bytes, mp_error *err);

/* Adds the copies requested by `offload` and `link` to the workload's graph. Sets tier_bytes, folder and bytes_per_second.
 * Without these settings it does nothing. MP_INVALID: the folder or link does not exist, or nothing can be copied; as
 * mp_graph_offload. MP_UNSUPPORTED: the GPU cannot copy to a folder. */
mp_status mp_workload_offload(const mp_workload_options *o, const mp_own_device *device, mp_workload *w, mp_error *err);
