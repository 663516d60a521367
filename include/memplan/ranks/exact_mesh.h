/* exact_mesh.h - judges a mesh by the graphs of its ranks, as the command estimate builds them.
 *
 * The search for meshes simulates thousands of choices by sums over the blocks of the network. The graphs of the ranks have
 * more detail: each collective of a bucket, each tensor's lifetime, and the stash of a pipeline rank. The model is loaded once
 * per choice. One graph is built for each pipeline stage, because all other ranks of a mesh have equal graphs.
 *
 *     // given: const mp_workload_options *options; mp_meshes_request request; mp_error *err
 *     mp_exact_mesh exact = {.path = "gpt2-small", .options = options, .memory_bytes = request.memory_bytes};
 *     mp_meshes *meshes = NULL;
 *     int64_t withheld_bytes;
 *     request.judge = mp_exact_mesh_judge;
 *     request.judge_data = &exact;
 *     MP_CHECK(mp_exact_mesh_search(&request, &exact, &withheld_bytes, &meshes, err));
 *     mp_meshes_free(meshes);
 */
#pragma once

#include "memplan/ranks/meshes.h"
#include "memplan/workload.h"

typedef struct mp_exact_mesh {
    const char *path;                   /* the model, as for mp_workload_load */
    const mp_workload_options *options; /* settings of the training; those of the mesh and of copies are replaced */
    int64_t memory_bytes;               /* memory of a device */
} mp_exact_mesh;

/* Judges a choice. `data` is an mp_exact_mesh. If every rank fits with everything kept, the numbers become those of the command
 * estimate. If a rank exceeds the memory and so has to recompute, leaves the choice unchanged. MP_UNSUPPORTED, MP_INVALID: the
 * ranks cannot be built. Other errors as mp_workload_load. */
mp_status mp_exact_mesh_judge(void *data, mp_mesh_choice *choice, mp_error *err);

/* Searches for meshes as mp_meshes_search. While the process of the best mesh's fullest rank exceeds its card, searches again
 * with less memory for tensors. Each time, request->memory_bytes and mesh->memory_bytes decrease by the excess in bytes.
 * *withheld_bytes is the total decrease. The judge and judge_data of the request are mp_exact_mesh_judge and `mesh`, or
 * NULL. Without a judge, processes are unknown. The estimated process counts without a margin if no measured job resembles it.
 * Release *out with mp_meshes_free. Errors as mp_meshes_search. Cost: at most three searches. */
mp_status mp_exact_mesh_search(mp_meshes_request *request, mp_exact_mesh *mesh, int64_t *withheld_bytes, mp_meshes **out,
                               mp_error *err);

/* Computes the seconds of a training step of a workload without a pipeline, with n_micro_batches micro-batches. Method and
 * errors as mp_rank_seconds. */
mp_status mp_workload_step_seconds(const mp_workload *w, int64_t n_micro_batches, const mp_step *steps, size_t n,
                                   double *seconds, mp_error *err);
