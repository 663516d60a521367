/* player.h - a step that is being played: its parameters block by block, and what each block keeps and copies. */
#pragma once

#include "planner/parallel/stages.h"

/* Parameters that all ranks of dp and shard have, and those of experts, which lie on ranks of ep. */
enum { MP_COMMON, MP_SPREAD, MP_N_SHARES };

/* The parameters that a block is the first to read. */
typedef struct mp_block_sums {
    int64_t values[MP_N_SHARES], gradients[MP_N_SHARES], parts[MP_N_SHARES]; /* before sharing out; of gradients over tp */
    int64_t value_bytes, gradient_bytes, state_bytes;                        /* that a rank holds */
    int64_t update_ticks;
} mp_block_sums;

typedef struct mp_player {
    const mp_step_request *request;
    mp_block_sums *sums; /* per block */
    int *tied;           /* parameters that blocks further on read too */
    size_t n_tied;
    int *options;  /* per block: the option that it runs by */
    bool *is_away; /* per block: what may be moved of what it keeps is copied to the host, and back */
    double *gone;  /* per parameter: when its state has left the device; space for mp_player_update_away */
    int64_t *brought;
} mp_player;

/* Returns the ranks over which such parameters are shared out, or copied. */
static inline mp_rank_group mp_player_group(const mp_step_request *r, mp_dim dim, int share)
{
    return share == MP_SPREAD ? mp_mesh_expert_group(&r->ranks->mesh, dim) : mp_mesh_group(&r->ranks->mesh, dim);
}

static inline int64_t mp_player_part(const mp_step_request *r, int64_t bytes, bool is_shared, int share)
{
    const int64_t n = is_shared ? mp_player_group(r, MP_DIM_SHARD, share).n : 1;
    return bytes / n + (bytes % n != 0);
}

static inline int64_t mp_player_ranks(const mp_step_request *r)
{
    return r->ranks->mesh.size[MP_DIM_PP];
}

/* Returns the number of stages: each rank has as many as it has chunks. */
static inline int64_t mp_player_stages(const mp_step_request *r)
{
    return mp_player_ranks(r) * r->n_chunks;
}
