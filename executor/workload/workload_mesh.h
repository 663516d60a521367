/* workload_mesh.h - the mesh of a workload: its ranks and network; with pp, the shape of the pipeline, the cut into
 * stages, and the stash of a rank. */
#pragma once

#include "memplan/workload.h"
#include "memplan/workloads/own_device.h"

/* Reads a network: a known network, or a .json file. Errors: as mp_network_read and mp_network_json_read. */
mp_status mp_workload_network(const char *name, mp_interconnect *out, mp_error *err);
/* Sets the ranks of the workload from the settings of the mesh. Without a mesh, *out is a mesh of one device. MP_INVALID: a
 * setting of ranks is given without a mesh. Other errors as mp_network_read. */
mp_status mp_workload_mesh(const mp_workload_options *o, const mp_own_device *device, mp_ranks *out, mp_error *err);

/* ---- pipelines: a mesh with pp ---- */

/* Returns the shape of the pipeline that the settings request. n_ranks is 0 if they request none. MP_INVALID: as
 * mp_schedule_check; settings of pipelines without a pipeline; micro-batches that do not divide the batch. */
mp_status mp_workload_pipeline(const mp_workload_options *o, mp_pipeline_shape *out, mp_error *err);
/* Cuts the workload's whole graph into pipeline stages, and keeps the graph of the rank that `rank` names. MP_INVALID: `rank`
 * is missing. Other errors: as mp_pipeline_new. */
mp_status mp_workload_cut(const mp_workload_options *o, const mp_pipeline_shape *shape, const mp_device *device, mp_workload *w,
                          mp_error *err);
/* Sets the stash to the bytes given by `held`; if it is not given, to the stash of keep-all. MP_INVALID: `held` is not a list
 * of bytes, one per chunk. */
mp_status mp_workload_hold_asked(const mp_workload_options *o, mp_workload *w, mp_error *err);

/* Sets the stash of a pipeline rank: the bytes per chunk that other micro-batches hold. NULL: the stash of keep-all. Updates
 * graph and problem. Does nothing without a pipeline. MP_NOMEM; MP_INVALID as mp_rank_hold. */
mp_status mp_workload_hold(mp_workload *w, const int64_t *bytes, mp_error *err);
/* Sets the stash of a rank to the stash of keep-all. Errors: as mp_rank_hold. */
mp_status mp_workload_hold_all(mp_rank *rank, mp_error *err);
/* Checks that the stash is at least as large as these steps require. Does nothing without a pipeline. Errors: as
 * mp_rank_check. */
mp_status mp_workload_check_held(const mp_workload *w, const mp_step *steps, size_t n, mp_error *err);
