/* search.h - the state of one search: what is asked, what has been kept, what is proved, and what time is left. For
 * planner/search/search.c, which keeps it, and planner/solve/solver.c, which starts and ends it; searchers see it through
 * memplan/search.h.
 *
 * The proof in a thread beside a search may end at any time. So that the same input gives the same plan, nothing that it tells
 * decides which schedules are tried, or which of them is kept: it only ends a search that can find nothing cheaper.
 */
#pragma once

#include "memplan/search.h"
#include "planner/bound/proof.h"
#include "planner/order/turn_around.h"
#include "planner/search/algorithms.h"

/* A schedule that was kept. */
typedef struct mp_candidate {
    mp_step *steps;
    size_t n, capacity;
    int64_t peak_bytes, ticks;
    const char *solver; /* NULL: nothing kept yet */
} mp_candidate;

struct mp_search {
    const mp_request *request;
    mp_request seen; /* by the searcher that runs: its graph may be the relaxed or marked one */
    mp_variant relaxed;
    mp_variant marked; /* of the relaxed one, if there are algorithms */
    bool has_algorithms;
    const char *solver; /* the searcher that runs */
    mp_candidate best, smallest;
    int64_t baseline_ticks, n_offers, n_offers_of_solver, n_moves, moves;
    double start, last_progress, moves_start;
    double share;           /* of the time limit, when the searcher that runs has to end */
    mp_proof *proof;        /* beside the search; NULL: none, or it has ended ... */
    mp_status proof_status; /* ... so */
    mp_error proof_err;
    mp_bound known;  /* what was proved without it; ticks -1: nothing ... */
    mp_bound proved; /* ... and in all */
    mp_bound_report first_report,
        proof_report; /* of the bound before the search and of that in the thread, where one is asked for */
    bool has_proof;   /* a thread was started */
    bool stopped;
    bool was_cut; /* a searcher ended with its share of the time */
};

/* Copies the steps; the candidate keeps its memory. MP_NOMEM. */
mp_status mp_candidate_take(mp_candidate *kept, const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks,
                            const char *solver, mp_error *err);
/* Starts the search's clock. */
void mp_search_begin(mp_search *search);
/* Ends the search if its time is over or the caller says so, to whom it reports ten times a second. */
void mp_search_check_limits(mp_search *search);
/* Takes a bound that was proved without the thread beside the search, as far as it is better than what was known. */
void mp_search_take_bound(mp_search *search, const mp_bound *bound);
/* Ends the proof beside the search, if there is one, and takes what it has found; proof_status tells of failure. */
void mp_search_end_proof(mp_search *search);
/* Runs a searcher on the graph that it is made for: the relaxed one unless it chooses algorithms, with phases if it wants them.
 */
mp_status mp_search_run(mp_search *search, const mp_solver *solver, mp_error *err);
/* Releases what the search keeps. */
void mp_search_clear(mp_search *search);
