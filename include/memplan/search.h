/* search.h - the request of a search, and the functions that a searcher calls to offer candidates and to decide when to stop.
 * Needed for searchers of your own (mp_request.own; docs/internals/adding-a-searcher.md) and for the searchers of the table
 * (solver.h).
 *
 * A searcher proposes schedules. mp_search_offer judges each schedule with the timeline and keeps the best. A searcher
 * therefore contains only the method that generates candidates, and all searchers are compared by the same measure.
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
 * - mp_search_settled is true if the best plan meets the proved bound. No plan is cheaper; a searcher can only lower the peak.
 * - mp_search_await_proof waits for the end of the bound thread. Afterwards any decision may depend on mp_search_proved. */
#pragma once

#include "memplan/plan.h"
#include "memplan/problem.h"

/* A running search: its request, the schedules offered so far, and its proofs (opaque). */
typedef struct mp_search mp_search;

/* A searcher: a row of the table (solver.h), or the caller's own. */
typedef struct mp_solver {
    const char *name;    /* "lower-set" */
    const char *summary; /* one line that describes it */
    const char *source;  /* "Kusumoto et al. 2019" */
    mp_status (*run)(mp_search *search, mp_error *err);
    bool monotone;           /* true if candidates for a budget are also candidates for every larger budget */
    bool chooses_algorithms; /* true if the searcher chooses algorithms; other searchers see a relaxed graph, and
                                mp_search_offer chooses */
    bool wants_phases;       /* true if the searcher needs phases and does not choose algorithms. In a graph without loss and
                                backward, such a searcher sees all nodes after the turn-around as backward */
    bool wants_copies;       /* true if the searcher applies only to graphs with copies */
} mp_solver;

/* The effort of a search. Effort is counted work, so the same effort gives the same plan on every machine.
 *
 * - quick: a first plan with few improvements, and the bound stages that take almost no time.
 * - normal: ends when a plan is within half a percent of a step of the bound, or when the last round of moves gained too
 *   little.
 * - thorough: every improvement known to help, for the plan and for the bound.
 *
 * On small graphs every search is thorough, because a thorough search is fast there. */
typedef enum mp_effort { MP_EFFORT_NORMAL, MP_EFFORT_QUICK, MP_EFFORT_THOROUGH, MP_N_EFFORTS } mp_effort;

/* returns "normal", "quick" or "thorough". O(1) */
const char *mp_effort_name(mp_effort effort);
int mp_effort_find(const char *name); /* the effort with this name, or -1 */

/* Called repeatedly during a search, from the searching thread. Times are seconds; ticks -1: none yet. Return false to stop
 * with the best result so far. */
typedef struct mp_progress {
    const char *solver;
    double elapsed_seconds;
    int64_t best_ticks, baseline_ticks, smallest_peak_bytes;
    int64_t bound_ticks;       /* proved lower bound: no plan within the budget takes less time */
    int64_t n_offers, n_moves; /* schedules judged as a whole; changes tried by a local search ... */
    double moves_per_second;   /* ... and their rate since the search began */
} mp_progress;
typedef bool (*mp_progress_call)(const mp_progress *progress, void *data);

/* Called with every schedule that a search judges, if the schedule fits the tiers other than the device. A status other than
 * MP_OK ends the search with that status. */
typedef mp_status (*mp_offer_call)(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data,
                                   mp_error *err);

typedef struct mp_request {
    const mp_graph *graph;
    mp_problem *problem;              /* the graph's problem, with cached results; NULL: the search creates one */
    int64_t budget_bytes;             /* limit of static bytes plus live bytes on the device; MP_NO_LIMIT: no limit */
    int64_t tier_bytes[MP_MAX_TIERS]; /* budgets of the tiers other than the device; 0: none */
    const char *solver;               /* name of the searcher to run; NULL: "auto" */
    const mp_solver *own;             /* the caller's own searcher, which runs instead of `solver`; NULL: none */
    uint64_t seed;
    int64_t moves;     /* maximum number of candidates; <= 0: the searcher's default, scaled to the graph */
    double time_limit; /* limit of the search in seconds; <= 0: no limit */
    mp_effort effort;  /* effort of the search; 0: normal */
    double gap; /* the search may end with a plan this close to the bound (fraction of a step); <= 0: default of the effort */
    const int *checkpoints; /* storages that the user chose as checkpoints, for `segments` */
    size_t n_checkpoints;   /* with checkpoints NULL, `segments` chooses its own list */
    const mp_plan *start;   /* a plan of the same graph, offered first; NULL: none */
    bool refine;            /* with `start`: auto only refines that plan, by a short anneal at low temperature */
    mp_status (*find_smallest)(
        const struct mp_request *request, bool with_arena, mp_plan **out,
        mp_error *err);   /* mp_smallest_plan or NULL: the start of auto if it found no plan within the budget */
    bool skips_if_proved; /* with wants_bound: if it is proved before the search that no plan fits, only keep-all is offered */
    bool wants_bound;     /* compute a lower bound before and during the search; the search ends when a plan meets it */
    bool explains_bound;  /* with wants_bound: also fill a report about the bound */
    unsigned stages_off;  /* bit s: skip stage s of the bound (mp_bound_options.off) */
    unsigned solvers_off; /* bit k: `auto` skips row k of the table (never the baseline) */
    bool keep_order;      /* first runs stay in list order; the search only adds recomputation */
    mp_progress_call progress; /* function that reports progress; NULL: none */
    void *progress_data;
    mp_offer_call on_offer; /* function that receives every judged schedule; NULL: none */
    void *on_offer_data;
} mp_request;

/* True if the live bytes of every tier fit the request's budgets. O(tiers). */
bool mp_request_fits(const mp_request *request, const mp_timeline *timeline);
/* True if the plan fits the request's budgets in every tier; a plan with offsets counts its arenas. O(storages). */
bool mp_request_fits_plan(const mp_request *request, const mp_plan *plan);

/* ---- for searchers ---- */

/* Returns the request, valid while the searcher runs. Its graph may be relaxed unless the searcher `chooses_algorithms`: every
 * algorithm of a node then has the ticks of the fastest and the workspace of the smallest, and mp_search_offer chooses.
 * O(1). */
const mp_request *mp_search_request(const mp_search *search);
/* Returns the maximum number of candidates (`moves`) of the running searcher over all its stages. O(1). */
int64_t mp_search_moves(const mp_search *search);
/* Returns the requested effort; on very small graphs always thorough, because a thorough search is fast there. O(1). */
mp_effort mp_search_effort(const mp_search *search);

/* Judges a schedule. Keeps a copy if the schedule fits the other tiers and is the fastest within the budget or has the lowest
 * peak so far; among equals the earlier one is kept. If nodes have algorithms, the best algorithms for this order replace those
 * of the steps. *peak_bytes and *ticks (may be NULL) receive the result. With keep_order, a schedule that breaks the list order
 * is first put in list order. If that is impossible because backward nodes break the order, the schedule is not judged and the
 * result is INT64_MAX. MP_INVALID: the schedule cannot run, which is a bug of the searcher. MP_NOMEM. Cost as
 * mp_timeline_build. */
mp_status mp_search_offer(mp_search *search, const mp_step *steps, size_t n, int64_t *peak_bytes, int64_t *ticks,
                          mp_error *err);
/* Returns the fastest schedule within the budget so far; if there is none, the schedule with the lowest peak. At least one
 * schedule exists after the first offer. *steps is valid until the next offer. O(1). */
void mp_search_best(const mp_search *search, const mp_step **steps, size_t *n);
int64_t mp_search_best_ticks(const mp_search *search); /* returns the ticks of the fastest schedule within the budget so far;
                                                          INT64_MAX: no schedule fits the budget so far */
int64_t
mp_search_baseline_ticks(const mp_search *search); /* returns the ticks of all compute steps of keep-all, without waits */

/* True if the search must end: the time limit is over, the caller stopped it, or the `moves` are used up. */
bool mp_search_stopped(mp_search *search);
/* Returns the elapsed fraction of the time limit; 0 without a limit. Thread-safe. */
double mp_search_elapsed(const mp_search *search);
/* Adds n to the number of changes that a local search has tried. Used only for progress. */
void mp_search_count_moves(mp_search *search, int64_t n);

/* The four queries about proofs described above. mp_search_enough and mp_search_proved return ticks. */
int64_t mp_search_enough(const mp_search *search);
int64_t mp_search_proved(mp_search *search);
bool mp_search_settled(mp_search *search);
void mp_search_await_proof(mp_search *search);
/* True if the best plan is within `gap` (a fraction of a step) of the bound. Waits for the proof. */
bool mp_search_is_within(mp_search *search, double gap);
/* True if a searcher may end: the search is settled, or its best plan is within the requested gap. */
bool mp_search_will_do(mp_search *search);
/* True if it was proved before the searcher began that no plan fits the budget. */
bool mp_search_is_infeasible(const mp_search *search);
/* Records a proof of the searcher: no plan within the budget takes fewer ticks, or no plan fits. With keep_order, the proof
 * covers only plans that keep the list order. */
void mp_search_claim_bound(mp_search *search, int64_t ticks);
void mp_search_claim_infeasible(mp_search *search);

/* Runs another searcher within this search, as `auto` does. Its offers are counted separately and carry its name. It is stopped
 * at the fraction `share` of the time limit, measured from the start of the search (1: at the limit). If no plan within the
 * budget exists yet, it is stopped after half of the remaining time. Returns the status of the other searcher. */
mp_status mp_search_delegate(mp_search *search, const mp_solver *solver, double share, mp_error *err);
