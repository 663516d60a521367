/* bound_settle.h - which of two nodes runs first, settled by a target: what all plans that take less than it have in common.
 * For bound.c.
 *
 * If plans in which u comes after v take at least the target, all others have u before v; so either the target is a bound, or
 * what holds of these others is. (Immediate selection: Carlier and Pinson 1989.) It is tried where u is the late reader of
 * something large, like the gradient of logits, that has to be live at v.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_settled {
    int64_t ticks;        /* beyond first runs, proved of plans in any order */
    mp_precedence *order; /* of plans that take less than the target, NULL: none is worth it */
    int64_t target;       /* ticks beyond first runs */
    mp_bound_work work;
} mp_bound_settled;

/* Raises the bound `ticks` of plans in any order with targets above it. On any status *out is released with
 * mp_bound_settled_clear. MP_NOMEM. A few cuts for each node at which something large is live, and whoever reads that. */
mp_status mp_bound_settle(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, int64_t ticks,
                          mp_bound_settled *out, mp_error *err);
void mp_bound_settled_clear(mp_bound_settled *orders);
