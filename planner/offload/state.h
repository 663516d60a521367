/* state.h - plans for graphs that keep optimizer state in another tier and copy it to the device for its update. Searchers see
 * the graph without state copies, which does not contain these copies (estimator/graph/without_state_copies.h). The functions
 * of this file add the copies to the plans of the graph without state copies. */
#pragma once

#include "estimator/graph/without_state_copies.h"
#include "memplan/search.h"

/* Builds a plan with copies of state from a plan of the graph without state copies. It starts from the steps of the plan
 * without state copies. If the graph fuses updates into backward, it also tries two other orders: updates as early as possible,
 * and updates at the end. A copy to the device runs several updates before its own update, and a copy back several updates
 * after it. The numbers of updates are chosen so that the plan is as fast as the device budget permits. If the plan without
 * state copies fits the budget, so does the result. MP_NOMEM. Builds about 2 log2(updates) timelines, or 6 log2(updates) with
 * fused updates. */
mp_status mp_state_plan(const mp_request *request, const mp_graph *without_state, const mp_plan *plan, mp_plan **out,
                        mp_error *err);
/* Builds the plan in which each update is directly between its copy to the device and its copy back. Its peak equals that of
 * the plan without state copies. MP_NOMEM. */
mp_status mp_state_in_order(const mp_graph *graph, const mp_plan *plan, mp_plan **out, mp_error *err);
/* Removes the copies of state from a plan, which gives a plan of the graph without state copies. MP_NOMEM. */
mp_status mp_state_remove_copies(const mp_graph *graph, const mp_graph *without_state, const mp_plan *plan, mp_plan **out,
                                 mp_error *err);

/* The `data` argument of mp_state_hear: the original request, whose on_offer receives the schedules, and the graph without
 * state copies. */
typedef struct mp_state_listener {
    const mp_request *request;
    const mp_graph *without_state;
} mp_state_listener;
/* A function of type mp_offer_call for the search of the graph without state copies. It adds copies of state to each schedule
 * that is offered, and passes the results to the original request's on_offer. One schedule yields several results: one within
 * the schedule's own peak, and others with more memory, up to the bytes of all state. */
mp_status mp_state_hear(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data, mp_error *err);

/* Checks that static bytes fit in the request's budgets. MP_INVALID: the static bytes of a tier exceed its budget.
 * O(storages). */
mp_status mp_state_check_static_bytes(const mp_request *request, mp_error *err);
/* Returns the ticks of running every required compute node once, in its base alternative. Copies and collectives are not
 * included. No plan takes fewer ticks. O(nodes). */
int64_t mp_ticks_of_all(const mp_graph *graph);
/* Returns a lower bound on the ticks of a plan with copies of state, given the bound `ticks` for the graph without state
 * copies. Each copy channel must copy all of its state in one direction. At least one copy in the other direction runs before
 * or after all of these copies. With MP_FUSE_NONE, copies out follow all nodes except updates. O(graph size). */
int64_t mp_state_bound(const mp_graph *graph, int64_t ticks);
