/* state.h - plans for graphs that keep optimizer state in another tier and copy it to the device for its update. Searchers see
 * the folded graph, without the copies (estimator/graph/fold.h). The functions of this file add the copies to the searchers'
 * plans. */
#pragma once

#include "estimator/graph/fold.h"
#include "memplan/search.h"

/* Builds a plan with copies of state from a plan of the folded graph. It tries the steps of the folded plan. If the graph
 * fuses updates into backward, it also tries updates as early as possible, and updates at the end. A copy to the device runs
 * some updates ahead of its update, and a copy back some updates after. These numbers of updates are the fastest within the
 * device budget. If the folded plan fits the budget, so does the result. MP_NOMEM. Builds about 2 log2(updates) timelines, or
 * 6 log2(updates) with fused updates. */
mp_status mp_state_plan(const mp_request *request, const mp_graph *folded, const mp_plan *plan, mp_plan **out, mp_error *err);
/* Builds the plan that runs each update directly between its two copies. Its peak equals the peak of the folded plan.
 * MP_NOMEM. */
mp_status mp_state_in_order(const mp_graph *graph, const mp_plan *plan, mp_plan **out, mp_error *err);
/* Builds the plan of the folded graph from a plan with copies. MP_NOMEM. */
mp_status mp_state_fold_plan(const mp_graph *graph, const mp_graph *folded, const mp_plan *plan, mp_plan **out, mp_error *err);

/* The `data` argument of mp_state_hear: the request, whose on_offer hears the schedules, and its folded graph. */
typedef struct mp_state_listener {
    const mp_request *request;
    const mp_graph *folded;
} mp_state_listener;
/* An mp_offer_call for the search of the folded graph. It adds copies to each schedule and passes the results to the request's
 * on_offer. There are several results per schedule: one within the schedule's own peak, and others with more memory, up to the
 * bytes of all state. */
mp_status mp_state_hear(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data, mp_error *err);

/* Checks that static bytes fit in the request's budgets. MP_INVALID: the static bytes of a tier exceed its budget.
 * O(storages). */
mp_status mp_state_check_room(const mp_request *request, mp_error *err);
/* Returns the ticks of running every required compute node once, in its base alternative, without copies and collectives. No
 * plan takes fewer ticks. O(nodes). */
int64_t mp_ticks_of_all(const mp_graph *graph);
/* Returns a lower bound on the ticks of a plan with copies of state, given the bound `ticks` for the folded graph. Each copy
 * channel must move all of its state. In addition, at least one copy in the other direction runs before or after all of these.
 * With MP_FUSE_NONE, copies out follow everything except updates. O(graph). */
int64_t mp_state_bound(const mp_graph *graph, int64_t ticks);
