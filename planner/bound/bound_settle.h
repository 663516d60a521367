/* bound_settle.h - internal to the bound: for a target time, fixes the order of some pairs of nodes.
 *
 * Suppose that every plan with node v before node u takes at least the target. Then u precedes v in every plan that takes less
 * than the target. Therefore the smaller of two numbers is a bound for all plans: the target, and a bound for plans with u
 * before v. (Immediate selection: Carlier and Pinson 1989.)
 *
 * Only certain pairs are tried. Node u is a late reader of a large storage, such as the gradient of logits. Node v runs before
 * u in many plans. In such plans the storage is live at v. */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_settled {
    int64_t ticks; /* lower bound proved for plans in any order, in ticks without the first run of each node */
    /* the precedence relation of all plans that take less than `target`; NULL: no target above `ticks` raised the bound */
    mp_precedence *order;
    int64_t target; /* the target, in ticks without the first run of each node */
    mp_bound_work work;
} mp_bound_settled;

/* Raises the lower bound `ticks` of plans in any order, by trying targets above it. Release *out with mp_bound_settled_clear on
 * any status. MP_NOMEM. A few minimum cuts for each node at which a large storage is live, and for each reader of such a
 * storage. */
mp_status mp_bound_settle(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, int64_t ticks,
                          mp_bound_settled *out, mp_error *err);
void mp_bound_settled_clear(mp_bound_settled *orders);
