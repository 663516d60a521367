/* search.h - the request of a search, and what a searcher can ask of its search: judge a candidate, and when to end.
 * For searchers of your own (mp_request.own; docs/internals/adding-a-searcher.md) and those of the table (solver.h).
 *
 * A searcher proposes schedules; mp_search_offer judges each with the timeline and keeps the best. So a searcher is
 * only the idea that makes its candidates, and all are compared by the same measure.
 *
 * A larger budget never costs more. For that, a searcher that is monotone in the budget offers for every larger budget
 * all that it offers for a smaller one: its candidates do not depend on the budget, or come from a ladder of budgets
 * that ends at it. What other searchers find for a budget is handed on to the larger ones where several are asked for
 * (sweep.h). Every searcher therefore starts from the same base, keep-all, which mp_solve offers for it.
 *
 * Four questions about proofs differ in what may depend on the answer, so that the same input gives the same plan:
 *  - mp_search_enough, proved before the searcher began, is always the same: anything may depend on it.
 *  - mp_search_proved, proved until now by the thread beside the search too, may end a searcher, but decide nothing else.
 *  - mp_search_settled: the best plan meets what is proved; nothing cheaper exists, and only a smaller peak is left to find.
 *  - mp_search_await_proof waits until that thread has ended; afterwards anything may depend on mp_search_proved.
 */
#pragma once

#include "memplan/plan.h"
#include "memplan/problem.h"

/* A search in progress. */
typedef struct mp_search mp_search;

/* A searcher: a row of the table (solver.h), or the caller's own. */
typedef struct mp_solver {
    const char *name;    /* "lower-set" */
    const char *summary; /* one line that describes it */
    const char *source;  /* "Kusumoto et al. 2019" */
    mp_status (*run)(mp_search *search, mp_error *err);
    bool monotone;           /* true if its candidates for a budget are also candidates for every larger one */
    bool chooses_algorithms; /* true if it sees algorithms; others see a relaxed graph, and mp_search_offer chooses */
    bool wants_phases;       /* true if it needs phases, and does not choose algorithms: in a graph without loss and backward it
                              * sees all nodes from the turn-around on as backward */
    bool wants_copies;       /* true if it is for graphs with copies only */
} mp_solver;

/* How much work a search is worth. Work is counted, so the same effort gives the same plan on every machine.
 *  - quick: a first plan, a little improved, and the bound that takes no time to speak of.
 *  - normal: until a plan is within half a percent of a step of the bound, or the last round of moves gained so little that
 *    another is not worth its second.
 *  - thorough: everything that has been seen to help, for the plan and for the bound.
 * On graphs of few nodes, where it takes no time, every search is thorough. */
typedef enum mp_effort { MP_EFFORT_NORMAL, MP_EFFORT_QUICK, MP_EFFORT_THOROUGH, MP_N_EFFORTS } mp_effort;

/* Returns "normal", "quick" or "thorough". O(1). */
const char *mp_effort_name(mp_effort effort);
int mp_effort_find(const char *name); /* the effort of this name, or -1 */

/* Called now and then while a search runs, from the searching thread. Times are seconds; ticks -1: none yet. Return
 * false to stop with the best result so far. */
typedef struct mp_progress {
    const char *solver;
    double elapsed_seconds;
    int64_t best_ticks, baseline_ticks, smallest_peak_bytes;
    int64_t bound_ticks;       /* proved lower bound: no plan within the budget takes less */
    int64_t n_offers, n_moves; /* schedules judged as a whole; changes that a local search has tried ... */
    double moves_per_second;   /* ... since it began */
} mp_progress;
typedef bool (*mp_progress_call)(const mp_progress *progress, void *data);

/* Called with every schedule that a search judges and that fits the tiers besides the device. Any status but MP_OK ends the
 * search with that status. */
typedef mp_status (*mp_offer_call)(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data,
                                   mp_error *err);

typedef struct mp_request {
    const mp_graph *graph;
    mp_problem *problem;              /* the graph's, with results of earlier questions; NULL: the search makes one */
    int64_t budget_bytes;             /* MP_NO_LIMIT: no budget */
    int64_t tier_bytes[MP_MAX_TIERS]; /* budgets of the tiers besides the device; 0: none */
    const char *solver;               /* a searcher's name; NULL: "auto" */
    const mp_solver *own;             /* a searcher of the caller's, which runs in place of `solver`; NULL: none */
    uint64_t seed;
    int64_t moves;          /* how many candidates a searcher may try; <= 0: its own default, scaled to the graph */
    double time_limit;      /* seconds; <= 0: none */
    mp_effort effort;       /* 0: normal */
    double gap;             /* share of a step: a plan so near the bound will do; <= 0: as the effort has it */
    const int *checkpoints; /* storages the user named, for `segments` */
    size_t n_checkpoints;   /* with checkpoints NULL, `segments` finds its own list */
    const mp_plan *start;   /* a plan of the same graph, which is offered before anything else; NULL: none */
    bool refine;            /* with `start`: auto only improves on it, by a short cool anneal */
    mp_status (*find_smallest)(const struct mp_request *request, bool with_arena, mp_plan **out,
                               mp_error *err); /* mp_smallest_plan, or NULL: where auto has no plan, what it starts from */
    bool skips_if_proved;      /* with wants_bound: proved before the search that nothing fits, only keep-all is offered */
    bool wants_bound;          /* compute a lower bound, before and beside the search, which ends when it is met */
    bool explains_bound;       /* with wants_bound: and a report of it */
    unsigned stages_off;       /* bit s: without this stage of the bound (mp_bound_options.off) */
    unsigned solvers_off;      /* bit k: `auto` leaves out row k of the table (never the baseline) */
    bool keep_order;           /* first runs stay in list order: only recomputation is searched for */
    mp_progress_call progress; /* may be NULL */
    void *progress_data;
    mp_offer_call on_offer; /* may be NULL */
    void *on_offer_data;
} mp_request;

/* True if what is live in every tier fits the request's budgets. O(tiers). */
bool mp_request_fits(const mp_request *request, const mp_timeline *timeline);
/* The same of what the plan needs: with offsets, its arenas. O(storages). */
bool mp_request_fits_plan(const mp_request *request, const mp_plan *plan);

/* ---- for searchers ---- */

/* Returns the request, valid while the searcher runs. Unless the searcher `chooses_algorithms`, its graph may be relaxed:
 * every algorithm of a node has the ticks of the fastest and the workspace of the smallest, and the offer chooses. O(1). */
const mp_request *mp_search_request(const mp_search *search);
/* Returns how many candidates the running searcher may try (`moves`), in all its stages together. O(1). */
int64_t mp_search_moves(const mp_search *search);
/* Returns the effort asked for; on very small graphs always thorough, as it takes no time there. O(1). */
mp_effort mp_search_effort(const mp_search *search);

/* Judges a schedule, and copies it if it is the fastest within the budget or has the lowest peak so far (of those that fit the
 * other tiers); of equals the earlier one is kept. Where nodes have algorithms, those of the steps are replaced by the best for
 * this order. *peak_bytes and *ticks (may be NULL) are the result. With keep_order, a schedule that breaks the list order is
 * put in that order and then judged; if that cannot be done (backward nodes break it), it is not judged, and the result is
 * INT64_MAX. MP_INVALID: the schedule cannot run, which is an error of the searcher. MP_NOMEM. Costs as much as
 * mp_timeline_build. */
mp_status mp_search_offer(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks,
                          mp_error *err);
/* Gives the best schedule within the budget so far, or if there is none the one of the lowest peak. There is one as soon as
 * anything was offered; *steps is valid until the next offer. O(1). */
void mp_search_best(const mp_search *search, const mp_step **steps, size_t *n);
int64_t mp_search_best_ticks(const mp_search *search);     /* INT64_MAX: none is within the budget yet */
int64_t mp_search_baseline_ticks(const mp_search *search); /* of all that is computed in keep-all, without waits */

/* True if the search must end: the time limit is over, the caller stopped it, or the offers that `moves` allows are used up. */
bool mp_search_stopped(mp_search *search);
/* Returns the fraction of the time limit that is over; 0 if there is no limit. Any thread may call it. */
double mp_search_elapsed(const mp_search *search);
/* Adds n to the number of changes that a local search has tried, for progress only. */
void mp_search_count_moves(mp_search *search, int64_t n);

/* What is proved, in the four forms above; mp_search_enough and mp_search_proved return ticks. */
int64_t mp_search_enough(const mp_search *search);
int64_t mp_search_proved(mp_search *search);
bool mp_search_settled(mp_search *search);
void mp_search_await_proof(mp_search *search);
/* True if the best plan is within this gap of the bound (a fraction of a step). Waits for the proof. */
bool mp_search_is_within(mp_search *search, double gap);
/* True if a searcher may end: the search is settled, or its plan is within the requested gap. */
bool mp_search_will_do(mp_search *search);
/* True if it was proved before the searcher began that no plan fits the budget. */
bool mp_search_is_infeasible(const mp_search *search);
/* Records what the searcher has proved: no plan within the budget (with keep_order, none that keeps it) takes less than
 * these ticks, or none fits. */
void mp_search_claim_bound(mp_search *search, int64_t ticks);
void mp_search_claim_infeasible(mp_search *search);

/* Runs another searcher within this search (as `auto` does); its offers are counted separately and carry its name. It is
 * stopped at this fraction of the time limit since the search began; or, if there is no plan within the budget yet, after
 * half of the remaining time. 1: at the limit. Returns what the searcher returns. */
mp_status mp_search_delegate(mp_search *search, const mp_solver *solver, double share, mp_error *err);
