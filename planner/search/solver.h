/* solver.h - the table of searchers and the one interface to them.
 *
 * A searcher proposes schedules; mp_search_offer judges each with the timeline and keeps the best. So every searcher is only
 * the idea that makes its candidates, and all are compared by the same measure.
 *
 * A larger budget never costs more. For that, what a searcher that `climbs` offers for a budget is among what it offers for
 * every larger one: its candidates do not depend on the budget, or come from a ladder of budgets that is climbed as far as the
 * budget goes. What other searchers find for a budget is handed on to the larger ones where several are asked for (sweep.h).
 * Every searcher therefore starts from the same base, keep-all, which mp_solve offers for it.
 */
#ifndef PLANNER_SOLVER_H
#define PLANNER_SOLVER_H

#include "memplan/bound.h"
#include "memplan/plan.h"
#include "memplan/solver.h"

/* How many candidates a searcher tries when the caller does not say: an offer takes time in proportion to the graph. */
int64_t mp_default_moves(const mp_graph *graph);

/* Writes the answer's bound into its plan, and checks that. MP_NOMEM. */
mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err);

/* ---- for searchers ---- */

/* What is asked, as the searcher sees it. */
const mp_request *mp_search_request(const mp_search *search);
/* Judges a schedule: kept if it is the best within the budget, or the smallest so far. Where nodes have algorithms, the forms
 * of their steps are chosen here, whatever they are: those that are best for this order (algorithms.h). *peak_bytes and *ticks
 * (may be NULL) tell what it came to. Where an order is to be kept, one that breaks it is judged with that order restored
 * (order.h), or, if its backward nodes break it, not at all: INT64_MAX. A schedule that cannot run is our bug: MP_INVALID.
 * Deterministic: ties keep the earlier one. */
mp_status mp_search_offer(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks,
                          mp_error *err);
/* True when the search should end: time limit, the caller, or the number of offers allowed by `moves` is used up. */
bool mp_search_stopped(mp_search *search);
/* True when no schedule is cheaper than the best so far, because it takes no longer than keep-all or than the bound: what is
 * left to look for is a smaller one. The bound may rise at any time while a search runs, so this may end a searcher, but not
 * decide what it does next; mp_search_proved are those ticks. */
bool mp_search_settled(mp_search *search);
int64_t mp_search_proved(mp_search *search);
/* The ticks that were known to be needed when the searcher began: what it does may depend on them. */
int64_t mp_search_enough(const mp_search *search);
/* Waits until the bound rises no more, or the best meets it, or the search is to stop; what is done then may depend on
 * mp_search_proved. */
void mp_search_await_proof(mp_search *search);
/* For searchers that prove: none of the plans that are asked for (with keep_order, of those that keep it) takes less than these
 * ticks within the budget, or none fits it. The search is settled when the bound is met, and the answer says what was proved.
 */
void mp_search_claim_bound(mp_search *search, int64_t ticks);
void mp_search_claim_infeasible(mp_search *search);
/* The best schedule within the budget so far, else the one of the lowest peak; *steps is valid until the next offer. There is
 * one as soon as anything was offered. */
void mp_search_best(const mp_search *search, const mp_step **steps, size_t *n);
int64_t mp_search_baseline_ticks(const mp_search *search); /* of keep-all */
int64_t mp_search_best_ticks(const mp_search *search);     /* INT64_MAX: none within the budget yet */
/* Tells how many changes a local search has tried since it last told. */
void mp_search_count_moves(mp_search *search, int64_t n);
/* How many candidates `moves` allows the running searcher in all; how many it should make of a kind is its own affair. */
int64_t mp_search_moves(const mp_search *search);

/* Runs another searcher within this search (as `auto` does): its offers are counted by themselves and carry its name. It is
 * stopped when this share of the time limit is over, counted from the search's beginning, or, while there is no plan within the
 * budget, half of what is left then; 1: at the limit. */
mp_status mp_search_delegate(mp_search *search, const mp_solver *solver, double share, mp_error *err);
/* How much of the time limit is over; 0 where there is none. May be asked from any thread. */
double mp_search_elapsed(const mp_search *search);

/* The searchers, each in its own file. */
mp_status mp_run_none(mp_search *search, mp_error *err);
mp_status mp_run_segments(mp_search *search, mp_error *err);
mp_status mp_run_chen(mp_search *search, mp_error *err);
mp_status mp_run_lower_set(mp_search *search, mp_error *err);
mp_status mp_run_chain(mp_search *search, mp_error *err);
mp_status mp_run_priced(mp_search *search, mp_error *err);
mp_status mp_run_priced_first(mp_search *search, mp_error *err); /* only a plan within the budget, soon, even when stopped */
mp_status mp_run_anneal(mp_search *search, mp_error *err);
mp_status mp_run_auto(mp_search *search, mp_error *err);

#endif
