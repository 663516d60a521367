/* state.h - plans for graphs that keep optimizer state in another tier and copy it to the device for its update. Searchers see
 * the folded graph (estimator/graph/fold.h). Its plans get their copies here. */
#pragma once

#include "estimator/graph/fold.h"
#include "memplan/search.h"

/* Builds a plan with copies from a folded plan. It tries the folded plan's steps. If the graph fuses updates into backward, it
 * also tries updates as early as possible, or at the end. Copies run as many updates ahead of and after their update as is
 * fastest within the device budget. If the folded plan fits, the result fits. MP_NOMEM. Builds about 2 log2(updates) timelines,
 * or 6 log2(updates) with fused updates. */
mp_status mp_state_plan(const mp_request *request, const mp_graph *folded, const mp_plan *plan, mp_plan **out, mp_error *err);
/* Builds the plan that runs each update between its copies, in order. Its peak equals that of the folded plan. MP_NOMEM. */
mp_status mp_state_in_order(const mp_graph *graph, const mp_plan *plan, mp_plan **out, mp_error *err);
/* Builds the folded plan of a plan with copies. MP_NOMEM. */
mp_status mp_state_fold_plan(const mp_graph *graph, const mp_graph *folded, const mp_plan *plan, mp_plan **out, mp_error *err);

/* The `data` of mp_state_hear: a request with on_offer, and its folded graph. */
typedef struct mp_state_listener {
    const mp_request *request;
    const mp_graph *folded;
} mp_state_listener;
/* An mp_offer_call for the search of the folded graph. It passes each schedule on with copies added, several times: within the
 * schedule's own peak, and with more memory in steps, up to the bytes of all state. */
mp_status mp_state_hear(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data, mp_error *err);

/* MP_INVALID: the static bytes of a tier exceed the request's budget for it. O(storages). */
mp_status mp_state_check_room(const mp_request *request, mp_error *err);
/* Returns the ticks of running every required compute node once, in its base alternative, without copies and collectives. No
 * plan takes less. O(nodes). */
int64_t mp_ticks_of_all(const mp_graph *graph);
/* Returns a lower bound on the ticks of a plan with copies, given a bound `ticks` for the folded graph. Each channel carries
 * all of its state. The first or last copy in the other direction runs before or after that. With MP_FUSE_NONE, copies out
 * follow everything except updates. O(graph). */
int64_t mp_state_bound(const mp_graph *graph, int64_t ticks);
