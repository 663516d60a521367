/* addresses.h - the addresses of a plan: the two memory blocks of an execution, and the operands of every step. */
#pragma once

#include "executor/run/program.h"
#include "executor/tiers/transfer.h"
#include "memplan/execution.h"
#include "memplan/plan.h"

/* One step with its addresses. */
typedef struct mp_ready_step {
    int node, alternative;
    bool first_run; /* true: the node's first run within a pass */
    size_t n_slots, n_dead, n_guarded;
    char **slots; /* per slot of the node its address; NULL: not live */
    char *workspace;
    char *source, *target; /* of accumulate and update nodes */
    char *state, *clip;
    const char *old_state;  /* where an update finds its state, if not where it makes it; NULL: there */
    const int *dead;        /* places of the instances whose last step is this one */
    const int *guarded;     /* with guards: places that the node may write to, its workspace included */
    bool is_copy;           /* true: the step copies between tiers, and computes nothing */
    bool is_of_state;       /* true: what it copies is state, so it runs where updates do */
    bool is_collective;     /* true: the network's channel runs it */
    size_t n_moved;         /* of a collective: tensors */
    char **wholes, **parts; /* where they are; parts NULL: of each, this rank's part is in its place */
    int64_t n_updated;      /* of an update: elements */
    const char *old_target; /* of an update that makes a part: the whole parameter as it was; else NULL */
    size_t n_copies;
    mp_copy *copies;
} mp_ready_step;

/* True if the step runs a node of the program with this task, and does not copy. */
bool mp_ready_step_does(const mp_ready_step *step, const mp_program *program, mp_task task);

typedef struct mp_addresses {
    const mp_program *program;
    const mp_plan *plan;
    mp_rank_place place;
    char *fixed, *arena; /* blocks of fixed_bytes and arena_bytes */
    int64_t fixed_bytes, arena_bytes;
    bool is_lent;                /* the arena is the caller's, as the options say */
    mp_tier tiers[MP_MAX_TIERS]; /* the memory of the tiers but the device; behind what is always live there is an arena */
    int64_t *fixed_at;           /* per storage: offset in `fixed`, or in its tier, if it is always live, else -1 */
    int64_t *constant_at;        /* per constant of the program: offset in `fixed`, behind the storages */
    size_t n_places;
    const mp_place *places; /* those of the plan, and behind them those in other tiers */
    int64_t *place_at;      /* per place: offset in the arena, or in its tier */
    int64_t guard_bytes;
    mp_ready_step *steps; /* per step of the plan */
} mp_addresses;

/* Returns the alternative that step t takes. */
static inline const mp_alternative *mp_addresses_alternative(const mp_addresses *a, int t)
{
    return &a->program->graph->nodes[a->plan->steps[t].node].alternatives[a->plan->steps[t].alternative];
}

enum { MP_UNUSED_BYTE = 0xa5 }; /* initial content of every byte of the arena */

/* Allocates both blocks from the program's backend, takes the memory of the other tiers as the options say, and fills *out,
 * whose lists lie in the pool; the caller releases the memory with mp_addresses_free, even after a failure. With the option
 * `guards`, places on the device are laid out side by side instead of as planned, with guard bytes between them that nothing
 * may write to. MP_NOMEM says how much was asked for; MP_INVALID: the plan has no offsets, or the arena that the options
 * lend is too small, or not for this graph; MP_INFEASIBLE: it takes more of a
 * tier than there may be; MP_UNSUPPORTED: a step that is no copy uses another tier, or a copy is none of one storage to
 * another, or the backend copies nowhere, or to no folder; MP_IO: as mp_tier_open. O(slots), and for a plan without offsets in
 * a tier its layout (mp_arena_layout_tier). */
mp_status mp_addresses_of(mp_program *program, const mp_plan *plan, const mp_execution_options *options, mp_pool *pool,
                          mp_addresses *out, mp_error *err);
void mp_addresses_free(mp_addresses *addresses); /* does nothing for a zeroed one */

/* As mp_execution_part. */
char *mp_addresses_part(const mp_addresses *addresses, int tensor, mp_range *own);
