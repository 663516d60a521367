/* second_stream.h - moves updates of a plan to a second stream, where they overlap with the rest of backward.
 *
 * Method: each update is issued at the earliest possible step. The method simulates the steps in order with one clock per
 * stream, in the graph's ticks. Consecutive updates are issued together after all earlier steps. The compute stream waits for
 * them at the first step by which they have ended according to the clocks, or earlier at the first step that uses or changes
 * their storages. If the longer-lived gradients would exceed the memory, the wait is placed where the memory still suffices. If
 * no time is hidden, the updates stay in order. The model ignores that both streams share the device's bandwidth. The plan's
 * seconds remain the sum over its steps. */
#pragma once

#include "memplan/plan.h"

typedef struct mp_second_stream {
    size_t n_updates, n_beside;
    int64_t update_ticks, hidden_ticks; /* update_ticks: ticks of all updates. hidden_ticks: the part of them in which other
                                           steps run at the same time */
} mp_second_stream;

/* Replaces *plan by a plan with waits, and with offsets if *plan has offsets. All steps of *plan must run in order, and *plan
 * must be valid. The new plan requires at most the budget; without a budget, at most the memory of the old plan. *plan is
 * unchanged if nothing is gained. Deterministic. MP_NOMEM. O(timeline * updates * log steps). */
mp_status mp_plan_second_stream(const mp_graph *graph, mp_plan **plan, mp_second_stream *effect, mp_error *err);
