/* addresses.h - the addresses of a plan: the two memory blocks of an execution, and the operands of every step. */
#pragma once

#include "executor/program/program.h"
#include "executor/tiers/transfer.h"
#include "memplan/execution.h"
#include "memplan/plan.h"

/* One step of the plan, with the addresses that it uses. */
typedef struct mp_ready_step {
    int node, alternative;
    bool first_run; /* true: the step runs its node for the first time in this micro-batch; false: a recomputation */
    size_t n_slots, n_dead, n_guarded;
    char **slots; /* for each operand of the node: its address; NULL: the operand is not in memory at this step */
    char *workspace;
    /* if the step accumulates a gradient or updates a parameter: addresses of the gradient to read and of the storage to
     * change */
    char *source, *target;
    char *state, *clip;
    const char *old_state; /* address of the state before an update, if the new state is written elsewhere; NULL: the update is
                              in place */
    const int *dead;       /* indices in mp_addresses.places of the instances whose lifetime ends with this step */
    const int *guarded;    /* if guard bytes are checked: indices in mp_addresses.places of the node's operands and workspace */
    bool is_copy;          /* true: the step copies data between tiers and computes nothing */
    bool is_of_state;      /* true: the step copies optimizer state, so it runs only in passes with updates */
    bool is_collective;    /* true: the step exchanges data with other ranks, on the network channel */
    size_t n_moved;        /* if the step runs a collective: number of tensors to exchange */
    /* if the step runs a collective: addresses of whole tensors and of this rank's parts; parts NULL: each part is inside
     * its whole tensor */
    char **wholes, **parts;
    int64_t n_updated; /* if the step updates a parameter: number of elements */
    /* if the step updates a part of a parameter: address of the old values in the whole parameter; else NULL */
    const char *old_target;
    size_t n_copies;
    mp_copy *copies;
} mp_ready_step;

/* True if the step runs a node whose task is `task`. False for a copy between tiers. */
bool mp_ready_step_does(const mp_ready_step *step, const mp_program *program, mp_task task);

typedef struct mp_addresses {
    const mp_program *program;
    const mp_plan *plan;
    mp_rank_position place;
    char *fixed, *arena; /* device memory: `fixed` (fixed_bytes) for storages that are always live, `arena` (arena_bytes) for
                            all others */
    int64_t fixed_bytes, arena_bytes;
    bool is_lent; /* true: the arena belongs to the caller (options->arena) */
    /* for each tier except the device: its memory, which holds the storages that are always live, then an arena */
    mp_tier tiers[MP_MAX_TIERS];
    int64_t
        *fixed_at; /* per storage that is always live: offset in `fixed`, or in the memory of its tier; other storages: -1 */
    int64_t *constant_at; /* for each constant of the program: its offset in `fixed`, where constants follow the storages */
    size_t n_places;
    const mp_place
        *places; /* the instances and workspaces that the plan places in device memory, then the instances in other tiers */
    int64_t *place_at; /* for each entry of `places`: its offset in the arena or in the memory of its tier */
    int64_t guard_bytes;
    mp_ready_step *steps; /* the steps of the plan, in order */
} mp_addresses;

/* Returns the alternative that step t of the plan selects. */
static inline const mp_alternative *mp_addresses_alternative(const mp_addresses *a, int t)
{
    return &a->program->graph->nodes[a->plan->steps[t].node].alternatives[a->plan->steps[t].alternative];
}

enum { MP_UNUSED_BYTE = 0xa5 }; /* the value of every byte of the arena before the first step */

/* Allocates `fixed` and `arena` from the program's backend, and the memory of other tiers as the options state. Then fills
 * *out. The lists of *out are allocated in the pool. The caller releases the memory with mp_addresses_free, even after a
 * failure. With the option `guards`, instances on the device do not use the planned offsets: they are laid out one after the
 * other with guard bytes between them. No step may write to guard bytes. O(slots), plus mp_arena_layout_tier for tiers without
 * planned offsets.
 *
 * Errors:
 *   - MP_NOMEM: the message states the requested bytes.
 *   - MP_INVALID: the plan has no offsets, or the arena in the options is too small or cannot be used for this graph.
 *   - MP_INFEASIBLE: the plan needs more bytes of a tier than the options permit.
 *   - MP_UNSUPPORTED: a step that is not a copy uses another tier, a copy does not pair one read with one write, or the
 *     backend cannot copy to tiers or to folders.
 *   - MP_IO: as mp_tier_open. */
mp_status mp_addresses_of(mp_program *program, const mp_plan *plan, const mp_execution_options *options, mp_pool *pool,
                          mp_addresses *out, mp_error *err);
/* Releases the memory of the addresses; does nothing if *addresses is zeroed. */
void mp_addresses_free(mp_addresses *addresses);

/* Returns the address of this rank's part of a parameter, and in *own the elements of the part. NULL: this rank stores the
 * whole parameter. */
char *mp_addresses_part(const mp_addresses *addresses, int tensor, mp_range *own);
