/* bound_settle.h - fixes the order of pairs of nodes in all plans that take less than a target. Internal to the bound.
 *
 * If every plan with v before u takes at least the target, every cheaper plan has u before v. The minimum of the target and the
 * bound of these cheaper plans is therefore a valid bound. (Immediate selection: Carlier and Pinson 1989.)
 *
 * It is tried if u is a late reader of a large storage, such as the gradient of logits. With v before u, this storage would be
 * live at v.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_settled {
    int64_t ticks;        /* without first runs, proved for plans in any order */
    mp_precedence *order; /* precedence in all plans that take less than the target; NULL: no useful target */
    int64_t target;       /* ticks without first runs */
    mp_bound_work work;
} mp_bound_settled;

/* Raises the bound `ticks` of plans in any order, with targets above it. Release *out with mp_bound_settled_clear on any
 * status. MP_NOMEM. A few cuts per node at which a large storage is live, and per reader of that storage. */
mp_status mp_bound_settle(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, int64_t ticks,
                          mp_bound_settled *out, mp_error *err);
void mp_bound_settled_clear(mp_bound_settled *orders);
