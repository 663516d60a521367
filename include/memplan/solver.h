/* solver.h - the search for a plan within a budget, and the table of searchers. search.h has the request, and searchers of
 * your own. */
#pragma once

#include "memplan/bound.h"
#include "memplan/plan.h"
#include "memplan/search.h"

typedef struct mp_answer {
    mp_plan *plan;       /* the cheapest plan within the budget; NULL: none was found. plan->solver is the searcher that
                            found it: with `auto`, the one it ran */
    mp_plan *smallest;   /* the plan of the lowest peak found (of equals the cheapest); if the bound ended the search,
                          * `plan` once more; never NULL on MP_OK */
    mp_plan *least;      /* the plan of mp_smallest_plan, if the search asked for it (mp_request.find_smallest); else NULL */
    int64_t floor_bytes; /* no schedule has a smaller peak ... */
    int floor_node;      /* ... because of this node */
    mp_bound bound;      /* no plan within the budget takes less; ticks -1: not asked for. It holds for plans in any
                          * order; with keep_order, for those in list order */
    mp_bound_report *report; /* what the bound is made of; NULL: not asked for. Deterministic without a time limit: if the
                              * plan meets what was proved before the search, only that part */
    mp_effort effort;        /* as requested; always thorough on small graphs */
    bool stopped;            /* true if the time limit or the caller ended the search early */
} mp_answer;

/* Searches and checks: every plan in the answer has passed mp_plan_check. MP_OK with plan NULL: no plan within the budget
 * was found; none exists if budget_bytes < floor_bytes. On MP_OK release with mp_answer_free. MP_INVALID: no such searcher,
 * contradictory request. MP_NOT_APPLICABLE: the searcher is not for such graphs. MP_NOMEM. */
mp_status mp_solve(const mp_request *request, mp_answer *answer, mp_error *err);
void mp_answer_free(mp_answer *answer); /* releases its members, not the struct */

/* Computes the peak and ticks of the schedule that `segments` makes of exactly this list of kept storages, as a framework
 * that checkpoints by segments would run it. MP_NOT_APPLICABLE: no backward phase, or a graph with copies. */
mp_status mp_segments_on(const mp_graph *graph, const int *checkpoints, size_t n, int64_t *peak_bytes, int64_t *ticks,
                         mp_error *err);

/* The number of rows of the table, and row k, in the order of `memplan solvers`. */
size_t mp_solver_count(void);
const mp_solver *mp_solver_row(size_t k);
const mp_solver *mp_solver_find(const char *name); /* NULL: no searcher of this name */
