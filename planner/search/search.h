/* search.h - the state of one search: request, schedules kept so far, proved bounds and remaining time. planner/search/search.c
 * maintains the state, and planner/solve/solver.c starts and ends the search. Most searchers use memplan/search.h only.
 *
 * A parallel thread proves the bound and may end at any time. But the same input must always give the same plan. So the result
 * of the thread never decides which schedules are tried or kept. It only ends a search that cannot find a faster plan. */
#pragma once

#include "memplan/search.h"
#include "planner/bound/proof.h"
#include "planner/order/turn_around.h"
#include "planner/search/algorithms.h"

/* A schedule that the search keeps, with the name of the searcher that found it. */
typedef struct mp_candidate {
    mp_step *steps;
    size_t n, capacity;
    int64_t peak_bytes, ticks;
    const char *solver; /* NULL: no schedule kept yet */
} mp_candidate;

struct mp_search {
    const mp_request *request;
    mp_request seen; /* a copy of the request for the running searcher, with the relaxed or the marked graph */
    mp_variant relaxed;
    /* the graph with phases marked at the turn-around (turn_around.h); derived from `relaxed` if nodes have algorithms,
     * otherwise from the request's graph */
    mp_variant marked;
    bool has_algorithms;
    const char *solver; /* name of the running searcher */
    mp_candidate best, smallest;
    mp_plan *least;         /* the smallest plan (mp_smallest_plan); NULL: not computed yet */
    int64_t baseline_ticks; /* ticks of running each required node once, which is a lower bound on the ticks of every plan */
    int64_t keep_all_ticks; /* ticks of keep-all: baseline_ticks plus the ticks for which compute waits for other channels */
    int64_t n_offers, n_offers_of_solver, n_moves, moves;
    double start, last_progress, moves_start;
    double share;           /* the running searcher must end when this fraction of the time limit has passed */
    mp_proof *proof;        /* the thread that proves the bound; NULL: none was started, or it has ended */
    mp_status proof_status; /* status of the ended proof */
    mp_error proof_err;
    mp_bound known;  /* the best bound proved outside of the proof thread; ticks -1: none */
    mp_bound proved; /* the best bound so far, including bounds of the proof thread */
    mp_bound_report first_report,
        /* first_report: report on the bound that was proved before the search. proof_report: report on the bound of the proof
         * thread. Both are set only if the request asks for a report */
        proof_report;
    bool has_proof; /* true: a proof thread was started */
    bool stopped;
    bool was_cut; /* true: a searcher was stopped because it had used its share of the time limit */
};

/* Copies the steps into the candidate, whose memory is reused. MP_NOMEM. */
mp_status mp_candidate_take(mp_candidate *kept, const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks,
                            const char *solver, mp_error *err);
/* Sets the start time from which the time limit of the search is measured. */
void mp_search_begin(mp_search *search);
/* Stops the search if the time limit is reached or the caller's progress function returns false. Calls the progress function at
 * most ten times a second. */
void mp_search_check_limits(mp_search *search);
/* Replaces search->known by a bound that was proved outside of the proof thread, if that bound is better. */
void mp_search_take_bound(mp_search *search, const mp_bound *bound);
/* Ends the proof thread if it is running, and stores its bound. If the thread failed, proof_status is its status. */
void mp_search_end_proof(mp_search *search);
/* Runs a searcher on the graph that suits it. A searcher that chooses algorithms gets the request's graph. Other searchers get
 * the relaxed graph if nodes have several algorithms. If a searcher needs phases and the graph has none, phases are marked at
 * the turn-around (turn_around.h). */
mp_status mp_search_run(mp_search *search, const mp_solver *solver, mp_error *err);
/* Runs a searcher on another request for the same nodes, inside a running search. No bound is proved. *steps receives the
 * fastest schedule within the budget; NULL: the searcher found none. Release *steps with mp_free. Fails as the searcher does.
 */
mp_status mp_search_within(const mp_search *search, const mp_request *asked, mp_status (*run)(mp_search *search, mp_error *err),
                           mp_step **steps, size_t *n, mp_error *err);
/* Releases everything that the struct mp_search owns. */
void mp_search_clear(mp_search *search);
