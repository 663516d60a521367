/* stage_turns.h - a training step of one pipeline stage is a list of turns. A turn is the forward or the backward of one
 * micro-batch; it runs a part of the plan.
 *
 * The turn-around divides the plan: steps before it form the forward, all later steps the backward. Sums over ranks and
 * updates belong to the whole step and run only in its last backward.
 *
 * A plan describes one micro-batch, so each activation has one offset in the arena, and other storages reuse its bytes. If
 * another micro-batch runs between forward and backward, the activations are stashed: they are copied to a slot of the storage
 * `held`. The storage has one slot for each micro-batch that can wait. Before the backward, the slot and the arena exchange
 * their contents (reasons: docs/internals/ranks.md). Gathered parameters are equal for all micro-batches and are not stashed
 * (stage_gathers.h). */
#pragma once

#include "executor/run/calls.h"
#include "memplan/ranks/schedule.h"

/* Memory that a micro-batch keeps from forward to backward: a place in the arena, or an input. */
typedef struct mp_kept_place {
    char *at;
    int64_t bytes;
} mp_kept_place;

typedef struct mp_stage_slots {
    size_t n_kept;
    mp_kept_place *kept;
    int64_t slot_bytes;
    int n_slots;
    char *slots;
    int64_t *holds;       /* for each slot of the stash: the micro-batch whose activations it holds; -1: the slot is empty */
    int64_t micro_batch;  /* the micro-batch whose activations are in the arena; -1: none */
    int64_t copied_bytes; /* bytes copied between the arena and the slots of the stash in all turns so far */
} mp_stage_slots;

typedef struct mp_stage_turns {
    size_t n;
    mp_turn *list;      /* the turns of this stage, in the order in which they run */
    size_t turn_around; /* index of the plan's first step that belongs to the backward */
    size_t first_back;  /* index of the first call of the backward */
    bool loss_is_ahead; /* true: the forward of this stage computes the loss */
    mp_stage_slots slots;
} mp_stage_turns;

/* Lists the turns of a program's stage. The lists are allocated in the pool. MP_INVALID: the plan sends an activation after the
 * turn-around (in the backward), or `held` is too small for the stash. MP_NOMEM. O(turns + steps + places). */
mp_status mp_stage_turns_of(const mp_addresses *addresses, const mp_calls *calls, mp_pool *pool, mp_stage_turns *out,
                            mp_error *err);
/* Prepares the arena for a turn. Before a forward, activations of another micro-batch move to a slot. Before a backward, the
 * micro-batch's own activations return to the arena, and activations of another micro-batch move to a slot. After the
 * backward, no memory is reserved for the micro-batch. */
void mp_stage_turns_enter(mp_stage_turns *turns, const mp_turn *turn);
