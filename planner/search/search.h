/* search.h - the state of one search: request, kept schedules, proved bounds and remaining time. It is internal to
 * planner/search/search.c, which maintains it, and planner/solve/solver.c, which starts and ends it. Searchers use
 * memplan/search.h.
 *
 * The proof thread that runs parallel to a search may end at any time. The same input must give the same plan. The thread's
 * result therefore never decides which schedules are tried or kept. It only ends a search that cannot find a cheaper plan.
 */
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
    const char *solver; /* NULL: nothing kept yet */
} mp_candidate;

struct mp_search {
    const mp_request *request;
    mp_request seen; /* the request as the running searcher sees it: with the relaxed or marked graph */
    mp_variant relaxed;
    mp_variant marked; /* the graph with marked phases: the relaxed graph if nodes have algorithms, otherwise the original */
    bool has_algorithms;
    const char *solver; /* name of the running searcher */
    mp_candidate best, smallest;
    mp_plan *least;         /* the plan of mp_smallest_plan; NULL: not computed */
    int64_t baseline_ticks; /* ticks of running each required node once: no plan takes less */
    int64_t keep_all_ticks; /* the same, plus waits for other channels that keep-all cannot hide */
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
    bool has_proof; /* true once a proof thread was started */
    bool stopped;
    bool was_cut; /* true if a searcher used up its share of the time */
};

/* Copies the steps into the candidate, which reuses its memory. MP_NOMEM. */
mp_status mp_candidate_take(mp_candidate *kept, const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks,
                            const char *solver, mp_error *err);
/* Starts the clock of the search. */
void mp_search_begin(mp_search *search);
/* Ends the search if its time limit is reached or the caller's progress function returns false. Calls that function ten times a
 * second. */
void mp_search_check_limits(mp_search *search);
/* Stores a bound that was proved outside the proof thread, if it is better than the known bound. */
void mp_search_take_bound(mp_search *search, const mp_bound *bound);
/* Ends the proof thread, if it runs, and stores its bound. On failure proof_status holds the status. */
void mp_search_end_proof(mp_search *search);
/* Runs a searcher on its view of the graph. A searcher that chooses algorithms gets the request's graph. The others get the
 * relaxed graph if nodes have algorithms. If they need phases, the phases of that graph are marked. */
mp_status mp_search_run(mp_search *search, const mp_solver *solver, mp_error *err);
/* Releases everything that the search owns. */
void mp_search_clear(mp_search *search);
