/* bound_settle.h - fixes which of two nodes runs first, in all plans that take less than a target. For bound.c.
 *
 * If every plan in which u comes after v takes at least the target, every cheaper plan has u before v. So either the target is
 * a bound, or the bound of these cheaper plans is. (Immediate selection: Carlier and Pinson 1989.) It is tried where u is a
 * late reader of something large, like the gradient of logits, that must be live at v.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_settled {
    int64_t ticks;        /* beyond first runs, proved for plans in any order */
    mp_precedence *order; /* the order of all plans that take less than the target; NULL: no target is worth it */
    int64_t target;       /* ticks beyond first runs */
    mp_bound_work work;
} mp_bound_settled;

/* Raises the bound `ticks` of plans in any order by means of targets above it. On any status *out is released with
 * mp_bound_settled_clear. MP_NOMEM. A few cuts for each node at which something large is live, and each reader of it. */
mp_status mp_bound_settle(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, int64_t ticks,
                          mp_bound_settled *out, mp_error *err);
void mp_bound_settled_clear(mp_bound_settled *orders);
