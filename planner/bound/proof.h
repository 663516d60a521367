/* proof.h - the lower bound that goes with a search: that of plans in any order, and where the search keeps the order of the
 * list the better one of those for any order and for this order. */
#ifndef PLANNER_PROOF_H
#define PLANNER_PROOF_H

#include "memplan/bound.h"

/* How much work a bound is worth beside a search: what takes a second or some. For mp_bound_options.effort. */
int mp_proof_effort(const mp_graph *graph);

/* options->any_order is not read; of an order that is kept, the bound for any order has an effort of at most 1. As
 * mp_bound_within. */
mp_status mp_prove(const mp_graph *graph, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err);

/* A bound that is looked for in a thread of its own. */
typedef struct mp_proof mp_proof;

/* Starts it; where there is no thread to be had, it is found before this returns. options->stop is called from that thread. The
 * graph stays as it is until the end. On MP_OK release with mp_proof_end. MP_NOMEM. */
mp_status mp_proof_start(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_proof **out,
                         mp_error *err);
/* Waits so long for it, 0: not at all. Whether it is found. */
bool mp_proof_wait(mp_proof *proof, double seconds);
/* Ends it, before its time if it is not found yet: *out is what is proved until then. NULL is fine, and nothing is proved. As
 * mp_bound_within. */
mp_status mp_proof_end(mp_proof *proof, mp_bound *out, mp_error *err);

#endif
