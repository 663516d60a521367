/* stage_turns.h - a step of one stage of a pipeline: the turns of its schedule, each a part of the plan for one micro-batch.
 *
 * The plan's steps up to the turn-around are a forward, the others a backward; what is of the step as a whole, sums over ranks
 * and updates, runs in the last backward alone. */
#pragma once

#include "executor/run/calls.h"
#include "executor/run/stage_slots.h"
#include "memplan/ranks/schedule.h"

typedef struct mp_stage_turns {
    size_t n;
    mp_turn *list;      /* of this stage, in their order */
    size_t first_back;  /* the first call of a backward */
    bool loss_is_ahead; /* the loss is known after the forward */
    mp_stage_slots slots;
} mp_stage_turns;

/* Lists the turns of a program's stage. The lists lie in the pool. MP_INVALID: the plan sends an activation after it has turned
 * around; as mp_stage_slots_of. MP_NOMEM. O(turns + steps). */
mp_status mp_stage_turns_of(const mp_addresses *addresses, const mp_calls *calls, mp_pool *pool, mp_stage_turns *out,
                            mp_error *err);
/* Makes room for a turn: what its micro-batch keeps is in its place then, and nothing else is. */
void mp_stage_turns_enter(mp_stage_turns *turns, const mp_turn *turn);
