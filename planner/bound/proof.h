/* proof.h - the lower bound of a search, proved before it and in a thread during it: for any order, and where the search keeps
 * the list order the better of those for any order and for this order. */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* The effort (mp_bound_options.effort) that a graph of this size gets: some seconds of work. */
int mp_proof_effort(const mp_graph *graph);

/* Like mp_bound_within; options->any_order is not read; with keep_order, the bound for any order gets an effort of at most 1.
 */
mp_status mp_prove(mp_problem *problem, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err);

/* A bound that a thread of its own computes. */
typedef struct mp_proof mp_proof;

/* Starts the thread; if there is none to be had, the bound is computed before this returns. options->stop is called from that
 * thread. The problem outlives it. On MP_OK release with mp_proof_end. MP_NOMEM. */
mp_status mp_proof_start(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_proof **out,
                         mp_error *err);
/* Waits up to so many seconds; whether it is done. */
bool mp_proof_wait(mp_proof *proof, double seconds);
/* Ends it, early if it is not done: *out is what is proved by then. NULL is fine, and nothing is proved. As
 * mp_bound_within. */
mp_status mp_proof_end(mp_proof *proof, mp_bound *out, mp_error *err);
