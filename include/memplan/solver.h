/* solver.h - the search for a plan within a budget, and the table of searchers. The request, and what a searcher sees:
 * search.h. */
#pragma once

#include "memplan/bound.h"
#include "memplan/plan.h"
#include "memplan/search.h"

typedef struct mp_answer {
    mp_plan *plan;           /* the cheapest plan within the budget; NULL: none was found. plan->solver is the searcher
                              * that found it: with `auto`, the one that it ran */
    mp_plan *smallest;       /* the plan of the lowest peak found (of several, the cheapest); where a bound proved
                              * beside the search ended it, a copy of `plan`; never NULL on MP_OK */
    int64_t floor_bytes;     /* no schedule fits below it ... */
    int floor_node;          /* the node whose sum is the floor */
    mp_bound bound;          /* no plan within the budget takes less; ticks -1: not asked for. Holds for plans in any
                              * order, with keep_order for this order */
    mp_bound_report *report; /* how the bound is made up; NULL: not asked for. Without a time limit the same for the same
                              * input: where the plan meets what was proved before the search, it holds only that */
    mp_effort effort;        /* as asked for; thorough on small graphs */
    bool stopped;            /* the time limit or the caller cut the search short */
} mp_answer;

/* Searches and checks: every plan in the answer has passed mp_plan_check. MP_OK with plan NULL means that no plan within the
 * budget was found; it is proved impossible if budget_bytes < floor_bytes. On MP_OK release with mp_answer_free.
 * MP_INVALID: no such searcher, contradictory request. MP_NOT_APPLICABLE: the graph is not of the searcher's kind. MP_NOMEM. */
mp_status mp_solve(const mp_request *request, mp_answer *answer, mp_error *err);
void mp_answer_free(mp_answer *answer); /* frees what it points to */

/* Computes peak and ticks of the schedule that `segments` makes of exactly these kept storages: what a user gets in a
 * framework that checkpoints by segments. MP_NOT_APPLICABLE without a backward phase. */
mp_status mp_segments_on(const mp_graph *graph, const int *checkpoints, size_t n, int64_t *peak_bytes, int64_t *ticks,
                         mp_error *err);

/* The table of searchers, in the order of `memplan solvers`. */
size_t mp_solver_count(void);
const mp_solver *mp_solver_row(size_t k);
const mp_solver *mp_solver_find(const char *name); /* NULL: there is none of this name */
