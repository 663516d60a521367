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

#include "planner/bound/bound.h"
#include "planner/plan/plan.h"

/* Called now and then while a search runs, from the searching thread. Times in seconds, bytes; ticks -1: none yet. Return false
 * to stop with the best result so far. */
typedef struct mp_progress {
    const char *solver;
    double elapsed_seconds;
    int64_t best_ticks, baseline_ticks, smallest_peak_bytes;
    int64_t bound_ticks;       /* proved: no plan within the budget takes less */
    int64_t n_offers, n_moves; /* schedules judged as a whole; changes tried by a local search ... */
    double moves_per_second;   /* ... since it began */
} mp_progress;
typedef bool (*mp_progress_call)(const mp_progress *progress, void *data);

/* Called with every schedule that a search judges. Anything but MP_OK ends the search with that. */
typedef mp_status (*mp_offer_call)(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data,
                                   mp_error *err);

typedef struct mp_request {
    const mp_graph *graph;
    int64_t budget_bytes; /* INT64_MAX: none */
    const char *solver;   /* NULL: "auto" */
    uint64_t seed;
    int64_t moves;             /* how many candidates a searcher may try; <= 0: its own default, scaled to the graph */
    double time_limit;         /* seconds; <= 0: none */
    const int *checkpoints;    /* storages the user named, for `segments` */
    size_t n_checkpoints;      /* with checkpoints NULL, `segments` finds its own list */
    const mp_plan *start;      /* a plan of the same graph, which is offered before anything else; NULL: none */
    bool refine;               /* with `start`: auto only improves on it, by a short cool anneal */
    bool wants_bound;          /* compute a lower bound, before and beside the search, which ends when it is met */
    bool explains_bound;       /* with wants_bound: and a report of it */
    unsigned stages_off;       /* bit s: without this stage of the bound (mp_bound_options.off) */
    unsigned solvers_off;      /* bit k: `auto` runs without row k of the table, but for the baseline */
    bool keep_order;           /* every node's first run in the order of the list: only recomputation is searched for */
    mp_progress_call progress; /* may be NULL */
    void *progress_data;
    mp_offer_call on_offer; /* may be NULL */
    void *on_offer_data;
} mp_request;

typedef struct mp_answer {
    mp_plan *plan;           /* the cheapest plan within the budget; NULL: none was found. plan->solver is the searcher that
                                found it: with `auto`, the one it ran */
    mp_plan *smallest;       /* the plan of the lowest peak that was found (ties: the cheapest), or, where the bound that is
                                looked for beside the search ended it, `plan` once more; never NULL on MP_OK */
    int64_t floor_bytes;     /* no schedule fits below it ... */
    int floor_node;          /* ... because of this node */
    mp_bound bound;          /* no plan within the budget takes less; ticks -1: not asked for. Of plans in any order; with
                                keep_order, those in this order */
    mp_bound_report *report; /* what it is made of; NULL: not asked for. The same for the same input, unless a time limit ends
                                it: where the plan meets what was proved before the search, only of that */
    bool stopped;            /* the time limit or the caller cut the search short */
} mp_answer;

/* How many candidates a searcher tries when the caller does not say: an offer takes time in proportion to the graph. */
int64_t mp_default_moves(const mp_graph *graph);

/* Searches and checks: every plan in the answer has passed mp_plan_check. MP_OK with plan NULL means that no plan within the
 * budget was found; it is proved impossible if budget_bytes < floor_bytes. On MP_OK release with mp_answer_free.
 * MP_INVALID: no such searcher, contradictory request. MP_NOT_APPLICABLE: the graph is not of the searcher's kind. MP_NOMEM. */
mp_status mp_solve(const mp_request *request, mp_answer *answer, mp_error *err);
void mp_answer_free(mp_answer *answer); /* frees what it points to */
/* Writes the answer's bound into its plan, and checks that. MP_NOMEM. */
mp_status mp_answer_claim_bound(const mp_answer *answer, const mp_graph *graph, mp_error *err);

/* What `segments` makes of exactly this list of kept storages: the peak and ticks a user gets who copies it into a framework
 * that checkpoints by segments. MP_NOT_APPLICABLE without a backward phase. */
mp_status mp_segments_on(const mp_graph *graph, const int *checkpoints, size_t n, int64_t *peak_bytes, int64_t *ticks,
                         mp_error *err);

/* ---- for searchers ---- */

typedef struct mp_search mp_search;

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

typedef struct mp_solver {
    const char *name;    /* "lower-set" */
    const char *summary; /* one line for people */
    const char *source;  /* "Kusumoto et al. 2019" */
    mp_status (*run)(mp_search *search, mp_error *err);
    bool climbs; /* what it offers for a budget is among what it offers for every larger one: a search answers for all below */
    bool chooses_algorithms; /* it sees them; others see the relaxed graph (algorithms.h) and leave the choice to the offer */
} mp_solver;
size_t mp_solver_count(void);
const mp_solver *mp_solver_row(size_t k);
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
mp_status mp_run_exact(mp_search *search, mp_error *err);
mp_status mp_run_ilp(mp_search *search, mp_error *err);
mp_status mp_run_chain(mp_search *search, mp_error *err);
mp_status mp_run_priced(mp_search *search, mp_error *err);
mp_status mp_run_priced_first(mp_search *search, mp_error *err); /* only a plan within the budget, soon, even when stopped */
mp_status mp_run_anneal(mp_search *search, mp_error *err);
mp_status mp_run_auto(mp_search *search, mp_error *err);

#endif
