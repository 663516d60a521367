/* solver.h - the search for a plan within a budget, and the table of searchers. */
#ifndef MEMPLAN_SOLVER_H
#define MEMPLAN_SOLVER_H

#include "memplan/bound.h"
#include "memplan/plan.h"

/* A search that is under way, as a searcher sees it. */
typedef struct mp_search mp_search;

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
    int64_t budget_bytes;        /* INT64_MAX: none */
    const char *solver;          /* NULL: "auto" */
    const struct mp_solver *own; /* a searcher of the caller's (search.h), which runs in place of `solver`; NULL: none */
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

/* Searches and checks: every plan in the answer has passed mp_plan_check. MP_OK with plan NULL means that no plan within the
 * budget was found; it is proved impossible if budget_bytes < floor_bytes. On MP_OK release with mp_answer_free.
 * MP_INVALID: no such searcher, contradictory request. MP_NOT_APPLICABLE: the graph is not of the searcher's kind. MP_NOMEM. */
mp_status mp_solve(const mp_request *request, mp_answer *answer, mp_error *err);
void mp_answer_free(mp_answer *answer); /* frees what it points to */

/* What `segments` makes of exactly this list of kept storages: the peak and ticks a user gets who copies it into a framework
 * that checkpoints by segments. MP_NOT_APPLICABLE without a backward phase. */
mp_status mp_segments_on(const mp_graph *graph, const int *checkpoints, size_t n, int64_t *peak_bytes, int64_t *ticks,
                         mp_error *err);

typedef struct mp_solver {
    const char *name;    /* "lower-set" */
    const char *summary; /* one line for people */
    const char *source;  /* "Kusumoto et al. 2019" */
    mp_status (*run)(mp_search *search, mp_error *err);
    bool monotone; /* in the budget: its candidates for one are candidates for every larger one, so one search serves all below
                    */
    bool chooses_algorithms; /* it sees them; others see a relaxed graph and leave the choice to the offer (search.h) */
} mp_solver;
/* The table, in the order of `memplan solvers`. */
size_t mp_solver_count(void);
const mp_solver *mp_solver_row(size_t k);

#endif
