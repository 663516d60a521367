/* search.h - the state of one search: request, schedules kept so far, proved bounds and remaining time. Internal to
 * planner/search/search.c, which maintains the state, and planner/solve/solver.c, which starts and ends the search. Searchers
 * use memplan/search.h.
 *
 * A parallel thread proves the bound and may end at any time. The same input must give the same plan. So the thread's result
 * never decides which schedules are tried or kept. It only ends a search that cannot find a faster plan. */
#pragma once

#include "memplan/search.h"
#include "planner/bound/proof.h"
#include "planner/order/turn_around.h"
#include "planner/search/algorithms.h"

/* A kept schedule and the searcher that found it. */
typedef struct mp_candidate {
    mp_step *steps;
    size_t n, capacity;
    int64_t peak_bytes, ticks;
    const char *solver; /* NULL: no schedule kept yet */
} mp_candidate;

struct mp_search {
    const mp_request *request;
    mp_request seen; /* the request as the running searcher sees it: with the relaxed or marked graph */
    mp_variant relaxed;
    mp_variant marked; /* the graph with phases marked at the turn-around: of `relaxed` if nodes have algorithms, otherwise of
                          the request's graph */
    bool has_algorithms;
    const char *solver; /* name of the running searcher */
    mp_candidate best, smallest;
    mp_plan *least;         /* the smallest plan (mp_smallest_plan); NULL: not computed */
    int64_t baseline_ticks; /* ticks of running each required node once: no plan takes less */
    int64_t keep_all_ticks; /* ticks of keep-all: baseline_ticks plus the waits for other channels that keep-all cannot hide */
    int64_t n_offers, n_offers_of_solver, n_moves, moves;
    double start, last_progress, moves_start;
    double share;           /* the fraction of the time limit at which the running searcher must end */
    mp_proof *proof;        /* the parallel proof; NULL: none, or it has ended */
    mp_status proof_status; /* status of the ended proof */
    mp_error proof_err;
    mp_bound known;  /* the best bound proved outside the proof thread; ticks -1: none */
    mp_bound proved; /* the best bound, proof thread included */
    mp_bound_report first_report,
        /* reports of the bound before the search and of the proof thread; set only if the request asks for a report */
        proof_report;
    bool has_proof; /* a proof thread was started */
    bool stopped;
    bool was_cut; /* a searcher used up its share of the time limit */
};

/* Copies the steps into the candidate, which reuses its memory. MP_NOMEM. */
mp_status mp_candidate_take(mp_candidate *kept, const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks,
                            const char *solver, mp_error *err);
/* Starts the clock that measures the time limit of the search. */
void mp_search_begin(mp_search *search);
/* Ends the search if its time limit is reached or the caller's progress function returns false. Calls that function ten times a
 * second. */
void mp_search_check_limits(mp_search *search);
/* Sets search->known to a bound that was proved outside the proof thread, if this bound is better than search->known. */
void mp_search_take_bound(mp_search *search, const mp_bound *bound);
/* Ends the proof thread, if it runs, and stores its bound. On failure proof_status holds the status. */
void mp_search_end_proof(mp_search *search);
/* Runs a searcher on its view of the graph. A searcher that chooses algorithms gets the request's graph. Other searchers get
 * the relaxed graph if nodes have algorithms. If a searcher needs phases, it gets this graph with phases marked
 * (turn_around.h). */
mp_status mp_search_run(mp_search *search, const mp_solver *solver, mp_error *err);
/* Releases everything that the search state owns. */
void mp_search_clear(mp_search *search);
