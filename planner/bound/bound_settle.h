/* bound_settle.h - internal to the bound: for a target time, fixes the order of some pairs of nodes.
 *
 * Assume that every plan with node v before node u takes at least the target. Then every plan that takes less has u before v.
 * A bound for plans with u before v, or the target if smaller, is therefore a bound for all plans. (Immediate selection:
 * Carlier and Pinson 1989.)
 *
 * The pairs tried have a late reader u of a large storage, such as the gradient of logits, and a node v that often runs before
 * it. With v before u, this storage would be live at v. */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_settled {
    int64_t ticks;        /* lower bound proved for plans in any order, without the first run of each node */
    mp_precedence *order; /* precedence in all plans that take less than `target`; NULL: no target above `ticks` helped */
    int64_t target;       /* in ticks, without the first run of each node */
    mp_bound_work work;
} mp_bound_settled;

/* Raises the lower bound `ticks` of plans in any order, by trying targets above it. Release *out with mp_bound_settled_clear
 * on any status. MP_NOMEM. A few cuts per node at which a large storage is live, and per reader of that storage. */
mp_status mp_bound_settle(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, int64_t ticks,
                          mp_bound_settled *out, mp_error *err);
void mp_bound_settled_clear(mp_bound_settled *orders);
