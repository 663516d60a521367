/* second_stream.h - moves updates of a plan to a second stream, where they overlap with the rest of backward.
 *
 * Method: each update is issued at the earliest possible step. The method simulates the steps in order with one clock per
 * stream, in the graph's ticks. Consecutive updates form a group, which is issued after all steps before it. The compute
 * stream waits for the group at the first step that begins after the group's simulated end. If an earlier step uses or
 * changes the group's storages, the wait is at that step. A late wait keeps gradients live for longer. If they would exceed
 * the memory, the wait is placed earlier. If the updates overlap with no other step, they are not issued. The model ignores
 * that both streams share the device's bandwidth. The plan's seconds remain the sum over its steps. */
#pragma once

#include "memplan/plan.h"

typedef struct mp_second_stream {
    size_t n_updates, n_beside;
    int64_t update_ticks, hidden_ticks; /* update_ticks: ticks of all updates. hidden_ticks: part of update_ticks in which other
                                           steps run at the same time */
} mp_second_stream;

/* Replaces *plan by a plan that issues its updates to the second stream. The new plan has offsets if *plan has offsets.
 * *plan must be valid, and none of its steps may be issued. The new plan requires at most the budget; without a budget, at
 * most the memory of the old plan. If the second stream saves no time, *plan is unchanged. Deterministic. MP_NOMEM.
 * O(timeline * updates * log steps). */
mp_status mp_plan_second_stream(const mp_graph *graph, mp_plan **plan, mp_second_stream *effect, mp_error *err);
