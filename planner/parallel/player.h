/* player.h - a step that is being played: its parameters block by block, what each block keeps, and what it copies to the
 * host's memory and back (docs/internals/parallel.md, "With the host's memory"). */
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

/* Adds up parameters block by block. The pool owns the arrays. MP_NOMEM. O(blocks + parameters). */
mp_status mp_player_new(const mp_step_request *request, mp_pool *pool, mp_player *x, mp_error *err);
/* Returns the sums of the parameters that a stage is the first to read. */
mp_block_sums mp_player_sums(const mp_player *x, const mp_stage *stage);
/* Fills in what the stages of a rank hold, and returns whether that fits. */
bool mp_player_hold(const mp_player *x, mp_stage *stages, int rank);

/* The updates of a stage whose state lies on the host. */
typedef struct mp_away_updates {
    double seconds;
    int64_t moved_bytes;   /* state that is there */
    int64_t largest_bytes; /* of it, on the device at once */
} mp_away_updates;

/* Returns the bytes of a parameter's state that a rank may have on the host. */
int64_t mp_player_movable_state(const mp_step_request *r, const mp_parameter_load *p);
/* Plays the updates of the parameters that a stage reads: state comes and goes while others are updated, with no more of it on
 * the device at once than the room, and three times the largest. O(parameters). */
mp_away_updates mp_player_update_away(const mp_player *x, const mp_stage *stage, int64_t room_bytes);
/* Returns the seconds of a micro-batch's forward, or backward, in a stage: each block that is away is copied while others run;
 * it begins when all copies but the last have ended, and the pass ends with them. O(blocks). */
double mp_player_pass(const mp_player *x, const mp_stage *stage, bool is_backward);
