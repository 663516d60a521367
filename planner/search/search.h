/* search.h - the state of one search: the request, the schedules kept, what is proved, and the time left. For
 * planner/search/search.c, which keeps it, and planner/solve/solver.c, which starts and ends it; searchers see it through
 * memplan/search.h.
 *
 * The proof in a thread beside a search may end at any time. The same input must give the same plan, so its result never
 * decides which schedules are tried, or which of them is kept: it only ends a search that can find nothing cheaper.
 */
#pragma once

#include "memplan/search.h"
#include "planner/bound/proof.h"
#include "planner/order/turn_around.h"
#include "planner/search/algorithms.h"

/* A schedule that was kept, and the searcher it is from. */
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
    mp_variant marked; /* the graph with marked phases; of the relaxed one, if there are algorithms */
    bool has_algorithms;
    const char *solver; /* name of the running searcher */
    mp_candidate best, smallest;
    mp_plan *least;         /* the plan of mp_smallest_plan; NULL: not asked for */
    int64_t baseline_ticks; /* of what has to be computed, once: no plan takes less */
    int64_t keep_all_ticks; /* the same with its waits for channels that keep-all does not hide */
    int64_t n_offers, n_offers_of_solver, n_moves, moves;
    double start, last_progress, moves_start;
    double share;           /* the fraction of the time limit at which the running searcher must end */
    mp_proof *proof;        /* the proof beside the search; NULL: none, or it has ended */
    mp_status proof_status; /* the status with which the proof ended */
    mp_error proof_err;
    mp_bound known;  /* the bound proved without the thread; ticks -1: none */
    mp_bound proved; /* the best bound, with or without the thread */
    mp_bound_report first_report,
        proof_report; /* of the bound before the search and of the thread's; only if a report is asked for */
    bool has_proof;   /* true once a thread was started */
    bool stopped;
    bool was_cut; /* true if a searcher used up its share of the time */
};

/* Copies the steps into the candidate, which reuses its memory. MP_NOMEM. */
mp_status mp_candidate_take(mp_candidate *kept, const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks,
                            const char *solver, mp_error *err);
/* Starts the search's clock. */
void mp_search_begin(mp_search *search);
/* Ends the search if its time is over or the caller's progress call says so; calls it ten times a second. */
void mp_search_check_limits(mp_search *search);
/* Takes a bound that was proved without the thread beside the search, if it is better than the known one. */
void mp_search_take_bound(mp_search *search, const mp_bound *bound);
/* Ends the proof beside the search, if there is one, and takes its bound; proof_status tells of failure. */
void mp_search_end_proof(mp_search *search);
/* Runs a searcher on its view of the graph. One that chooses algorithms gets the request's graph; others get the relaxed graph
 * (if nodes have algorithms), and that with phases marked if they want phases. */
mp_status mp_search_run(mp_search *search, const mp_solver *solver, mp_error *err);
/* Releases what the search keeps. */
void mp_search_clear(mp_search *search);
