/* stage_model.h - the simulation of one training step on a mesh: the parameters of each block, the recomputation option of each
 * block, and copies to host memory and back (docs/internals/parallel.md, "With the host's memory"). */
#pragma once

#include "planner/parallel/stages.h"

/* Two groups of parameters. MP_COMMON are sharded or replicated over dp and shard. MP_SPREAD are the parameters of experts,
 * which are split over ep. */
enum { MP_COMMON, MP_SPREAD, MP_N_SHARES };

/* Sums over all parameters that are read first by one block (or by the blocks of one stage). */
typedef struct mp_block_sums {
    /* bytes before sharding, per group of parameters (MP_COMMON, MP_SPREAD). values: parameter values. gradients: all
     * gradients. parts: gradients that are partial sums over tp */
    int64_t values[MP_N_SHARES], gradients[MP_N_SHARES], parts[MP_N_SHARES];
    /* bytes of values, gradients and optimizer state on one rank, after sharding */
    int64_t value_bytes, gradient_bytes, state_bytes;
    int64_t update_ticks;
} mp_block_sums;

typedef struct mp_stage_model {
    const mp_step_request *request;
    mp_block_sums *sums; /* per block */
    int *tied;           /* indices of the parameters that several blocks read */
    size_t n_tied;
    int *options;       /* per block: index of the recomputation option that is chosen for it */
    bool *is_offloaded; /* per block: the movable bytes of its option are offloaded to the host */
    double *gone; /* scratch of mp_stage_model_offloaded_updates, per parameter: time at which its state has left the device */
    int64_t *brought;
} mp_stage_model;

/* Returns the ranks of direction `dim` over which a group of parameters (`share`: MP_COMMON or MP_SPREAD) is sharded or
 * replicated. */
static inline mp_rank_group mp_stage_model_group(const mp_step_request *r, mp_dim dim, int share)
{
    return share == MP_SPREAD ? mp_mesh_expert_group(&r->ranks->mesh, dim) : mp_mesh_group(&r->ranks->mesh, dim);
}

static inline int64_t mp_stage_model_part(const mp_step_request *r, int64_t bytes, bool is_shared, int share)
{
    const int64_t n = is_shared ? mp_stage_model_group(r, MP_DIM_SHARD, share).n : 1;
    return bytes / n + (bytes % n != 0);
}

static inline int64_t mp_stage_model_ranks(const mp_step_request *r)
{
    return r->ranks->mesh.size[MP_DIM_PP];
}

/* Returns the number of stages of the pipeline: ranks times chunks per rank. */
static inline int64_t mp_stage_model_stages(const mp_step_request *r)
{
    return mp_stage_model_ranks(r) * r->n_chunks;
}

/* Computes the sums of parameters per block. The pool owns the arrays. MP_NOMEM. O(blocks + parameters). */
mp_status mp_stage_model_new(const mp_step_request *request, mp_pool *pool, mp_stage_model *x, mp_error *err);
/* Returns the sums over the parameters that are read first by a block of a stage. */
mp_block_sums mp_stage_model_sums(const mp_stage_model *x, const mp_stage *stage);
/* Computes the memory of all stages of a rank. Returns true if the rank fits in memory. */
bool mp_stage_model_hold(const mp_stage_model *x, mp_stage *stages, int rank);

/* Result of simulating the updates of one stage whose optimizer state is offloaded. */
typedef struct mp_offloaded_updates {
    double seconds;
    int64_t moved_bytes;   /* bytes of optimizer state that are copied to the device and back for the updates */
    int64_t largest_bytes; /* most bytes of copied state that are on the device at the same time */
} mp_offloaded_updates;

/* Returns the bytes of a parameter's optimizer state that a rank can offload to the host; 0 if the host takes no optimizer
 * state, or if the bytes are too few for a copy. */
int64_t mp_stage_model_movable_state(const mp_step_request *r, const mp_parameter_load *p);
/* Simulates the updates of the parameters that a stage reads. The state of one parameter is copied while other parameters are
 * updated. The device holds at most room_bytes of copied state, and at most three times the largest state of a parameter.
 * O(parameters). */
mp_offloaded_updates mp_stage_model_offloaded_updates(const mp_stage_model *x, const mp_stage *stage, int64_t room_bytes);
/* Returns the seconds of the forward or backward pass of a micro-batch in a stage. The copies of an offloaded block run
 * parallel to the compute of other blocks. An offloaded block may begin when all copies but the most recent one have ended. The
 * pass ends with its last copy. O(blocks). */
double mp_stage_model_pass(const mp_stage_model *x, const mp_stage *stage, bool is_backward);
