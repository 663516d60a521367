/* state.h - graphs whose optimizer state lies in another tier and is copied to the device for its update: the searchers see the
 * folded graph (estimator/graph/fold.h), and the plans of that get their copies here. */
#pragma once

#include "estimator/graph/fold.h"
#include "memplan/search.h"

/* Makes the plan of a folded one, with its steps, or in a graph that fuses updates into backward also with updates as early as
 * they may run, or at the end; and with copies as many updates ahead and behind as is fastest within the request's budget on
 * the device. A plan that fits without them fits with them. MP_NOMEM. About twice as many timelines as log2(updates), or six
 * times. */
mp_status mp_state_plan(const mp_request *request, const mp_graph *folded, const mp_plan *plan, mp_plan **out, mp_error *err);
/* Makes the plan that runs each update between its copies, in order: its peak is that of the folded one. MP_NOMEM. */
mp_status mp_state_in_order(const mp_graph *graph, const mp_plan *plan, mp_plan **out, mp_error *err);
/* Makes the folded plan of one with copies. MP_NOMEM. */
mp_status mp_state_fold_plan(const mp_graph *graph, const mp_graph *folded, const mp_plan *plan, mp_plan **out, mp_error *err);

/* The `data` of mp_state_hear: a request with on_offer, and the graph that is searched for it. */
typedef struct mp_state_listener {
    const mp_request *request;
    const mp_graph *folded;
} mp_state_listener;
/* An mp_offer_call for the search of the folded graph: hands its schedules on, with copies in the memory that they need, and
 * with more of it, in steps up to that of all state. */
mp_status mp_state_hear(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data, mp_error *err);

/* MP_INVALID: what is always live in a tier is more than the request's budget there. O(storages). */
mp_status mp_state_check_room(const mp_request *request, mp_error *err);
/* Returns the ticks of every node on compute once, in its base alternative: neither copies nor collectives, nor what need not
 * run. No plan takes less. O(nodes). */
int64_t mp_ticks_of_all(const mp_graph *graph);
/* Returns what a plan of the graph takes at least, if one of the folded graph takes `ticks`: each channel carries all of its
 * state, and the first or last copy of the other way runs before or after that; with MP_FUSE_NONE copies out come after all but
 * updates. O(graph). */
int64_t mp_state_bound(const mp_graph *graph, int64_t ticks);
