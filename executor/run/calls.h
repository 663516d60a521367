/* calls.h - a plan's steps as the calls that are made: updates that follow each other in one, on the main stream or on the side
 * stream, and which calls the main stream waits after.
 */
#pragma once

#include "executor/run/program.h"
#include "memplan/plan.h"

typedef struct mp_steps_call {
    size_t step, n_steps; /* of the plan; more than one only if they are updates */
    bool is_update, is_side;
    int wait; /* after it the main stream waits for this mark (the number of a call on the side stream); -1: none */
} mp_steps_call;

typedef struct mp_steps_calls {
    size_t n;
    mp_steps_call *calls;
} mp_steps_calls;

/* In the order of the plan. `one_by_one`: every update by itself; `two_streams`: false: all on the main stream. The list is
 * in the pool. MP_NOMEM. O(steps). */
mp_status mp_steps_calls_of(const mp_program *program, const mp_plan *plan, bool one_by_one, bool two_streams, mp_pool *pool,
                            mp_steps_calls *out, mp_error *err);
