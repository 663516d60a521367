/* search.h - the request of a search, and the functions that a searcher calls to offer candidates and to decide when to stop.
 * The searchers of memplan use these functions, and so does a searcher of your own (mp_request.own;
 * docs/internals/adding-a-searcher.md).
 *
 * A searcher proposes schedules. mp_search_offer judges each schedule with the timeline and keeps the best. A searcher
 * therefore only generates candidates, and all searchers are judged in the same way.
 *
 * A larger budget never gives a slower plan. To ensure this, a searcher that is monotone in the budget offers, for every larger
 * budget, all candidates of the smaller budgets. Its candidates either do not depend on the budget, or come from a sequence of
 * budgets that ends at the requested one. If several budgets are requested (sweep.h), the plans of other searchers are also
 * offered for the larger budgets. All searchers start from the same baseline, keep-all, which mp_solve offers first.
 *
 * Four functions query proofs. They differ in the decisions that may depend on the answer, because the same input must give the
 * same plan:
 *
 * - mp_search_enough returns the bound proved before the searcher began. It is reproducible: any decision may depend on it.
 * - mp_search_proved also includes proofs of the concurrent bound thread. A searcher may use it only to stop.
 * - mp_search_settled is true if the best plan's time equals the proved bound. No plan is faster, so a searcher can only lower
 *   the peak.
 * - mp_search_await_proof waits for the end of the bound thread. Afterwards any decision may depend on mp_search_proved. */
#pragma once

#include "memplan/plan.h"
#include "memplan/problem.h"

/* A running search: its request, the best schedules offered so far, and its proofs. Opaque. */
typedef struct mp_search mp_search;

/* A search method: a row of the table of searchers (solver.h), or the caller's own method. */
typedef struct mp_solver {
    const char *name;    /* "lower-set" */
    const char *former;  /* name in earlier releases, which mp_solver_find accepts too; NULL: none */
    const char *summary; /* one line that describes it */
    const char *source;  /* "Kusumoto et al. 2019" */
    mp_status (*run)(mp_search *search, mp_error *err);
    bool monotone;           /* true if every candidate for a budget is also a candidate for every larger budget */
    bool chooses_algorithms; /* true if the searcher chooses the algorithms of nodes. Other searchers see a relaxed graph, and
                                mp_search_offer chooses algorithms */
    bool wants_phases; /* true if the searcher needs a forward and a backward part and does not choose algorithms. If a graph
                          has no loss and backward nodes, such a searcher sees the nodes after the point of most live bytes
                          marked as backward */
    bool wants_copies; /* true if the searcher applies only to graphs with copies between tiers */
} mp_solver;

/* The effort of a search: how much work it does. Work is counted, not timed, so the same effort gives the same plan on every
 * machine.
 *
 * - quick: a first plan with few improvements, and the bound stages that take almost no time.
 * - normal: the search ends when its plan exceeds the bound by at most half a percent of a training step, or when the last
 *   round of moves gained too little.
 * - thorough: all known methods that improve the plan or the bound.
 *
 * On small graphs every search is thorough, because a thorough search is fast there. */
typedef enum mp_effort { MP_EFFORT_NORMAL, MP_EFFORT_QUICK, MP_EFFORT_THOROUGH, MP_N_EFFORTS } mp_effort;

/* returns the name of an effort: "normal", "quick" or "thorough". O(1) */
const char *mp_effort_name(mp_effort effort);
int mp_effort_find(const char *name); /* returns the effort with this name, or -1 if the name is unknown */

/* The progress of a search, passed to the caller's function repeatedly, in the thread of the search. Ticks are -1 while no
 * value exists. If the function returns false, the search ends with the best result so far. */
typedef struct mp_progress {
    const char *solver;
    double elapsed_seconds;
    int64_t best_ticks, baseline_ticks, smallest_peak_bytes;
    int64_t bound_ticks;       /* proved lower bound: no plan within the budget takes fewer ticks; -1: no bound yet */
    int64_t n_offers, n_moves; /* number of whole schedules judged, and number of changes tried by local searches */
    double moves_per_second;   /* changes tried per second since the search began */
} mp_progress;
typedef bool (*mp_progress_call)(const mp_progress *progress, void *data);

/* A caller's function that receives each schedule that a search judges, if the schedule is within the budgets of the tiers
 * other than the device. If it returns another status than MP_OK, the search ends with that status. */
typedef mp_status (*mp_offer_call)(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data,
                                   mp_error *err);

/* The plans that the searcher `lagrange` found for `graph` in an earlier search, with less than thorough effort. A later search
 * by `auto` takes these plans and does not run `lagrange`, under three conditions: the graph is the same, the budget is the
 * same, and the effort is less than thorough. Stages of a search that plan other graphs, for example without copies, run
 * `lagrange`. */
typedef struct mp_earlier_plans {
    const mp_graph *graph;
    int64_t budget_bytes;
    const mp_plan *plan;     /* mp_answer.plan; NULL: none was found */
    const mp_plan *smallest; /* mp_answer.smallest */
} mp_earlier_plans;

typedef struct mp_request {
    const mp_graph *graph;
    mp_problem *problem;              /* cached results of the graph; NULL: the search computes them */
    int64_t budget_bytes;             /* limit of the peak on the device, static bytes included; MP_NO_LIMIT: no limit */
    int64_t tier_bytes[MP_MAX_TIERS]; /* limits of live bytes in the tiers other than the device; 0: no limit */
    const char *solver;               /* name of the searcher to run; NULL: "auto" */
    const mp_solver *own;             /* the caller's own searcher, which runs instead of `solver`; NULL: none */
    uint64_t seed;
    int64_t moves;     /* maximum number of candidates; <= 0: the searcher's default, which grows with the graph */
    double time_limit; /* limit of the duration of the search in seconds; <= 0: no limit */
    mp_effort effort;  /* effort of the search; 0: normal */
    double gap; /* the search may end when its plan exceeds the bound by at most this fraction of a training step; <= 0: the
                   default of the effort */
    const int *checkpoints; /* indices of storages that the user chose as checkpoints, for the searcher `segments` */
    size_t n_checkpoints;   /* length of `checkpoints`. If `checkpoints` is NULL, `segments` chooses its own checkpoints */
    const mp_plan *start;   /* a plan of the same graph that is the search's first candidate; NULL: none */
    const mp_earlier_plans *earlier; /* NULL: none */
    /* true, only with `start`: the searcher `auto` only refines the plan `start`, by a short annealing at low temperature */
    bool refine;
    mp_status (*find_smallest)(const struct mp_request *request, bool with_arena, mp_plan **out,
                               mp_error *err); /* mp_smallest_plan or NULL: if `auto` finds no plan within the budget, it
                                                  continues from the plan that this function returns */
    /* true, only for mp_solve_with_arena: any arena within the budget will do. The search for offsets ends at the first such
     * arena, no further search follows the first plan that fits, and then mp_answer.smallest may have no offsets */
    bool first_fit;
    /* true, only with wants_bound: if it is proved before the search that no plan fits, the search offers only keep-all */
    bool skips_if_proved;
    /* true: compute a lower bound before and during the search. The search ends when a plan's time equals the bound */
    bool wants_bound;
    bool explains_bound;  /* true, only with wants_bound: also fill a report about the bound (mp_answer.report) */
    unsigned stages_off;  /* bit s set: the bound skips its stage s (mp_bound_options.off) */
    unsigned solvers_off; /* bit k: `auto` does not run row k of the table of searchers; the bit of the baseline is ignored */
    bool keep_order;      /* true: first runs of nodes stay in list order; the search decides only about recomputation */
    mp_progress_call progress; /* function that receives the progress of the search; NULL: none */
    void *progress_data;
    mp_offer_call on_offer; /* function that receives every schedule that the search judges; NULL: none */
    void *on_offer_data;
} mp_request;

/* True if the live bytes of a schedule are within the request's budget of every tier. O(tiers). */
bool mp_request_fits(const mp_request *request, const mp_timeline *timeline);
/* True if the plan is within the request's budget of every tier. If the plan has offsets, its arenas count instead of its
 * peaks. O(storages). */
bool mp_request_fits_plan(const mp_request *request, const mp_plan *plan);

/* ---- for searchers ---- */

/* Returns the request, valid while the searcher runs. If the searcher does not set `chooses_algorithms`, the request's graph
 * may be relaxed. In a relaxed graph every algorithm of a node has the ticks of the fastest algorithm and the workspace of
 * the smallest; mp_search_offer chooses the real one. O(1). */
const mp_request *mp_search_request(const mp_search *search);
/* Returns the maximum number of candidates (mp_request.moves) that the running searcher may try in total. O(1). */
int64_t mp_search_moves(const mp_search *search);
/* Returns the requested effort. On very small graphs it is always thorough, because a thorough search is fast there. O(1). */
mp_effort mp_search_effort(const mp_search *search);

/* Judges a schedule. A schedule that exceeds the budget of another tier than the device is not kept. Otherwise a copy is kept
 * if the schedule is the fastest so far within the device's budget, or has the lowest peak so far. Among equal schedules the
 * earlier one is kept. If nodes have algorithms, the best algorithms for this order replace those of the steps. *peak_bytes and
 * *ticks (may be NULL) receive the peak and time of the schedule.
 *
 * With keep_order, a schedule that breaks the list order is first put in list order. If that is impossible because backward
 * nodes break the order, the schedule is not judged, and peak and time are INT64_MAX. MP_INVALID: the schedule cannot run,
 * which is a bug of the searcher. MP_NOMEM. Cost as mp_timeline_build. */
mp_status mp_search_offer(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks,
                          mp_error *err);
/* Returns the fastest schedule within the budget so far. If no schedule is within the budget, returns the schedule with the
 * lowest peak. A schedule exists after the first offer. *steps is valid until the next offer. O(1). */
void mp_search_best(const mp_search *search, const mp_step **steps, size_t *n);
int64_t mp_search_best_ticks(const mp_search *search); /* returns the ticks of the fastest schedule within the budget so far;
                                                          INT64_MAX: no schedule fits the budget so far */
int64_t mp_search_baseline_ticks(
    const mp_search *search); /* returns the sum of the ticks of all compute steps of keep-all, without waits */

/* True if the search must end: the time limit is over, the caller stopped the search, or mp_request.moves candidates were
 * tried. */
bool mp_search_stopped(mp_search *search);
/* Returns the elapsed fraction of the time limit; 0 if there is no limit. Thread-safe. */
double mp_search_elapsed(const mp_search *search);
/* Adds n to the number of changes that a local search has tried. The number is only used for mp_progress. */
void mp_search_count_moves(mp_search *search, int64_t n);

/* The four queries about proofs that the file's header comment describes. mp_search_enough and mp_search_proved return
 * ticks. */
int64_t mp_search_enough(const mp_search *search);
int64_t mp_search_proved(mp_search *search);
bool mp_search_settled(mp_search *search);
void mp_search_await_proof(mp_search *search);
/* True if the best plan exceeds the bound by at most `gap`, a fraction of a training step. Waits for the end of the proof. */
bool mp_search_is_within(mp_search *search, double gap);
/* True if a searcher may end: the best plan's time equals the proved bound, or is within the requested gap. */
bool mp_search_will_do(mp_search *search);
/* True if it was proved, before the searcher began, that no plan is within the budget. */
bool mp_search_is_infeasible(const mp_search *search);
/* Record a proof of the searcher: no plan within the budget takes fewer ticks, or no plan is within the budget. With
 * keep_order, the proof covers only plans that keep the list order. */
void mp_search_claim_bound(mp_search *search, int64_t ticks);
void mp_search_claim_infeasible(mp_search *search);

/* Runs another searcher within this search, as `auto` does. The offers of the other searcher are counted separately and
 * carry its name. The other searcher is stopped at the fraction `share` of the time limit, measured from the start of the
 * search (1: at the limit). If no plan within the budget exists yet, it is stopped after half of the remaining time. Returns
 * the status of the other searcher. */
mp_status mp_search_delegate(mp_search *search, const mp_solver *solver, double share, mp_error *err);
