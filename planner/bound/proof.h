/* proof.h - proves the lower bound of a search, before the search and in a parallel thread. The bound holds for plans in any
 * order. If the search keeps the list order, the bound for the list order is used if it is higher. */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* Returns the effort (mp_bound_options.effort) for a graph of this size: some seconds of work. */
int mp_proof_effort(const mp_graph *graph);

/* Like mp_bound_within, but ignores options->any_order. With keep_order, the bound for any order is computed with an effort of
 * at most 1. */
mp_status mp_prove(mp_problem *problem, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err);

/* A lower bound that its own thread computes. */
typedef struct mp_proof mp_proof;

/* Starts the thread that computes the bound. If threads are not available, computes the bound before returning. The thread
 * calls options->stop. The problem must outlive the proof. On MP_OK release with mp_proof_end. MP_NOMEM. */
mp_status mp_proof_start(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_proof **out,
                         mp_error *err);
/* Waits up to `seconds`. Returns true if the proof is done. */
bool mp_proof_wait(mp_proof *proof, double seconds);
/* Ends the proof, early if it is not done. *out is the bound proved so far (none if `proof` is NULL). Errors as
 * mp_bound_within. */
mp_status mp_proof_end(mp_proof *proof, mp_bound *out, mp_error *err);
