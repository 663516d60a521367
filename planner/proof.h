/* proof.h - the lower bound that goes with a search: that of plans in any order, and where the search keeps the order of the
 * list the better one of those for any order and for this order. */
#ifndef PLANNER_PROOF_H
#define PLANNER_PROOF_H

#include "planner/bound.h"

/* How much work a bound is worth beside a search: what takes a second or some. For mp_bound_options.effort. */
int mp_proof_effort(const mp_graph *graph);

/* options->any_order is not read; of an order that is kept, the bound for any order has an effort of at most 1. As
 * mp_bound_within. */
mp_status mp_prove(const mp_graph *graph, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err);

#endif
