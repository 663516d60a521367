/* proof.h - proves the lower bound of a search, either before the search starts or in a thread parallel to it. The bound is
 * valid for plans in any order. If the search keeps the list order, a higher bound for plans in list order may replace it. */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* Returns the effort (mp_bound_options.effort) with which the bound of a graph of this size takes some seconds. */
int mp_proof_effort(const mp_graph *graph);

/* Computes the bound like mp_bound_within, but ignores options->any_order. With keep_order, it also computes the bound for any
 * order, with an effort of at most 1, and returns the better of the two. */
mp_status mp_prove(mp_problem *problem, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err);

/* A lower bound that is computed in its own thread. */
typedef struct mp_proof mp_proof;

/* Starts the thread that computes the bound. Without thread support, computes the bound before returning. options->stop is
 * called from the thread. The problem must outlive the proof. On MP_OK release with mp_proof_end. MP_NOMEM. */
mp_status mp_proof_start(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_proof **out,
                         mp_error *err);
/* Waits up to `seconds` for the bound. Returns true if the bound has been computed. */
bool mp_proof_wait(mp_proof *proof, double seconds);
/* Ends the computation, early if it is not done. *out is the best bound so far. If `proof` is NULL, *out does not change.
 * Errors as mp_bound_within. */
mp_status mp_proof_end(mp_proof *proof, mp_bound *out, mp_error *err);
