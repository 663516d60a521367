/* proof.h - the lower bound of a search, proved before it and in a thread beside it: for any order; and if the search keeps
 * the list order, the better of the bounds for any order and for this order. */
#pragma once

#include "memplan/bound.h"
#include "memplan/problem.h"

/* The effort (mp_bound_options.effort) that a graph of this size gets: some seconds of work. */
int mp_proof_effort(const mp_graph *graph);

/* Like mp_bound_within, but ignores options->any_order; with keep_order, the bound for any order gets an effort of at most
 * 1. */
mp_status mp_prove(mp_problem *problem, int64_t budget_bytes, bool keep_order, const mp_bound_options *options, mp_bound *out,
                   mp_error *err);

/* A bound that is computed in a thread of its own. */
typedef struct mp_proof mp_proof;

/* Starts the thread; without threads, computes the bound before it returns. options->stop is called from that thread. The
 * problem must outlive the proof. On MP_OK release with mp_proof_end. MP_NOMEM. */
mp_status mp_proof_start(mp_problem *problem, int64_t budget_bytes, const mp_bound_options *options, mp_proof **out,
                         mp_error *err);
/* Waits up to so many seconds; returns true if the proof is done. */
bool mp_proof_wait(mp_proof *proof, double seconds);
/* Ends the proof, early if it is not done; *out is what is proved by then (nothing if `proof` is NULL). Errors as
 * mp_bound_within. */
mp_status mp_proof_end(mp_proof *proof, mp_bound *out, mp_error *err);
