/* second_stream.h - which updates of a plan run on a second stream, beside the rest of backward, and where they are
 * waited for.
 *
 * Method: updates are put where they can run first. Steps are gone through in order with a clock per stream, in the
 * graph's ticks. The updates that follow on each other are issued together, once all before them is done; the compute
 * stream waits for them before the first step by which they have run, as the clocks say, or before the first that
 * changes or reads what they use. Where their gradients would then be over the memory, the wait comes as late as that
 * permits; where nothing is hidden, they stay in order. That both streams share the device's bandwidth is left out, and
 * the plan's seconds stay the sum over its steps.
 */
#pragma once

#include "memplan/plan.h"

typedef struct mp_second_stream {
    size_t n_updates, n_beside;
    int64_t update_ticks, hidden_ticks; /* of all updates; of those that run beside other steps */
} mp_second_stream;

/* Replaces *plan, which must hold with all steps in order, by one with waits (and offsets if it had some). It needs no
 * more than the budget, or without one no more than before. *plan stays as it is if nothing is gained. Deterministic.
 * MP_NOMEM. O(timeline * updates * log steps). */
mp_status mp_plan_second_stream(const mp_graph *graph, mp_plan **plan, mp_second_stream *effect, mp_error *err);
