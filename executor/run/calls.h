/* calls.h - a plan's steps as the calls that are made: updates that follow on each other in one, on the first stream or on the
 * second, and who waits for the second.
 */
#ifndef EXECUTOR_CALLS_H
#define EXECUTOR_CALLS_H

#include "executor/run/program.h"
#include "memplan/plan.h"

typedef struct mp_steps_call {
    size_t step, n_steps; /* of the plan; more than one only if they are updates */
    bool is_update, is_beside;
    int wait; /* after it the first stream waits for this mark of the second (the number of what was issued there); -1: none */
} mp_steps_call;

typedef struct mp_steps_calls {
    size_t n;
    mp_steps_call *calls;
} mp_steps_calls;

/* In the order of the plan. `one_by_one`: every update by itself; `two_streams`: false: all on the first. The list lies in the
 * pool. MP_NOMEM. O(steps). */
mp_status mp_steps_calls_of(const mp_program *program, const mp_plan *plan, bool one_by_one, bool two_streams, mp_pool *pool,
                            mp_steps_calls *out, mp_error *err);

#endif
