/* solver.h - the search for a plan within a budget, and the table of searchers. search.h defines the request and the interface
 * for searchers of your own. */
#pragma once

#include "memplan/bound.h"
#include "memplan/plan.h"
#include "memplan/search.h"

typedef struct mp_answer {
    mp_plan *plan; /* the fastest plan within the budget; NULL: no plan was found. plan->solver names the searcher that found
                      it; for `auto`, the searcher that `auto` ran */
    mp_plan *smallest;   /* the plan with the lowest peak that was found; among equal peaks the fastest. If the bound ended the
                            search, a copy of `plan`. Never NULL on MP_OK */
    mp_plan *least;      /* the plan of mp_smallest_plan, if the search called mp_request.find_smallest; else NULL */
    int64_t floor_bytes; /* the floor: no schedule has a smaller peak */
    int floor_node;      /* ... because of this node */
    mp_bound bound; /* lower bound: no plan within the budget takes fewer ticks; ticks -1: no bound was requested. It holds for
                       plans in any order; with keep_order, for plans in list order */
    mp_bound_report
        *report; /* the parts of the bound; NULL: not requested. Deterministic if there is no time limit. If the plan's time
                    equals the bound that was proved before the search, the report covers only this first proof */
    mp_effort effort; /* the requested effort; always thorough on small graphs */
    bool stopped;     /* true if the time limit or the caller ended the search early */
} mp_answer;

/* Searches for plans. Every plan in the answer has passed mp_plan_check. MP_OK with plan NULL: no plan within the budget was
 * found; if budget_bytes < floor_bytes, none exists. On MP_OK release *answer with mp_answer_free. MP_INVALID: unknown
 * searcher or contradictory request. MP_NOT_APPLICABLE: the searcher does not apply to this graph. MP_NOMEM. */
mp_status mp_solve(const mp_request *request, mp_answer *answer, mp_error *err);
void mp_answer_free(mp_answer *answer); /* releases the members of an answer, not the struct */

/* Computes the peak and ticks of segment checkpointing with exactly the given checkpoints, as a framework executes this plan.
 * The schedule is the one that the searcher `segments` builds. MP_NOT_APPLICABLE: the graph has no backward phase, or has
 * copies. */
mp_status mp_segments_on(const mp_graph *graph, const int *checkpoints, size_t n, int64_t *peak_bytes, int64_t *ticks,
                         mp_error *err);

/* Access to the table of searchers: the number of rows, and row k. The rows are in the order of `memplan solvers`. */
size_t mp_solver_count(void);
const mp_solver *mp_solver_row(size_t k);
/* Returns the searcher with this name, or with this name in earlier releases; NULL: there is none. */
const mp_solver *mp_solver_find(const char *name);

/* Returns the searcher that wraps whole modules in torch.utils.checkpoint, for mp_request.own. It is not in the table. */
const mp_solver *mp_solver_of_modules(void);
/* Switches off a stage of the bound or a searcher that `auto` runs, in stages_off or solvers_off of the request. Returns false
 * if there is none of this name. The searchers `auto` and `none` cannot be switched off. */
bool mp_request_switch_off(mp_request *request, const char *name);

/* Proves the floor and the bound of a plan again, and checks that the plan's claims do not exceed the proved values. The floor
 * is proved as in memplan/floor.h. With `proves_bound`, the bound is proved by another search with the same budget, first with
 * normal and then with thorough effort. Without it, the bound is not checked. MP_REFUTED: a claim exceeds the proved value, or
 * the bound is for an unknown class of orders. MP_NOMEM. Takes as long as mp_floor, or with `proves_bound` as mp_solve. */
mp_status mp_plan_check_proofs(const mp_graph *graph, const mp_plan *plan, bool proves_bound, mp_error *err);
