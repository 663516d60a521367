/* stage_turns.h - a step of one stage of a pipeline: the turns of its schedule, each a part of the plan for one micro-batch.
 *
 * The plan's steps up to the turn-around are a forward, the others a backward; what is of the step as a whole, sums over ranks
 * and updates, runs in the last backward alone.
 *
 * A plan is of one micro-batch, so what it keeps from its forward to its backward has one place in the arena, and others use
 * the same bytes before and after. So when another micro-batch runs in between, what is kept is copied into a slot of the
 * storage `held`, which has one for each micro-batch that can wait, and before the backward it is exchanged for what is in its
 * place (docs/internals/ranks.md says why). Gathered parameters are the same for all of them (stage_gathers.h). */
#pragma once

#include "executor/run/calls.h"
#include "memplan/ranks/schedule.h"

/* Something that a micro-batch keeps: a place in the arena, or an input. */
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
    int64_t *holds;       /* per slot: its micro-batch; -1: none */
    int64_t micro_batch;  /* that of what is in its place in the arena; -1: none */
    int64_t copied_bytes; /* so far, out of the arena and into it */
} mp_stage_slots;

typedef struct mp_stage_turns {
    size_t n;
    mp_turn *list;      /* of this stage, in their order */
    size_t turn_around; /* the first step of a backward */
    size_t first_back;  /* its first call */
    bool loss_is_ahead; /* the loss is known after the forward */
    mp_stage_slots slots;
} mp_stage_turns;

/* Lists the turns of a program's stage. The lists lie in the pool. MP_INVALID: the plan sends an activation after it has turned
 * around, or there is not as much room as it needs for what waits. MP_NOMEM. O(turns + steps + places). */
mp_status mp_stage_turns_of(const mp_addresses *addresses, const mp_calls *calls, mp_pool *pool, mp_stage_turns *out,
                            mp_error *err);
/* Makes room for a turn: before a forward what another micro-batch keeps goes into a slot; before a backward what its own keeps
 * is in its place, and what was there is in a slot. After the backward it keeps nothing. */
void mp_stage_turns_enter(mp_stage_turns *turns, const mp_turn *turn);
