/* share.h - several jobs on one card: how to split the card's memory so that the jobs finish as early as possible, and the
 * price of a byte.
 *
 * The time of a job is a piecewise constant function of its budget. A job has several options, one per plan; an option states
 * the required bytes and the resulting ticks. A split chooses an option k(i) for every job i. Let b be the bytes and t the
 * ticks of an option, s the static bytes of a job, and C the capacity. The ways to share a card differ in the memory
 * constraint:
 *
 *     beside      sum b[i][k(i)] <= C                        all jobs run at once and may reach their peaks together
 *     by turns    sum s[i] + max (b[i][k(i)] - s[i]) <= C    the jobs alternate after each step; only one holds activations
 *
 * The goal is the smallest total time, sum t[i][k(i)], or the smallest longest time, max t[i][k(i)].
 *
 *     // given: mp_error *err
 *     const mp_share_option a[] = {{10, 9}, {20, 5}}, b[] = {{10, 4}, {15, 3}};
 *     const mp_share_job jobs[] = {{.options = a, .n = 2}, {.options = b, .n = 2}};
 *     mp_share_split split;
 *     MP_CHECK(mp_share_split_of(&(mp_share_request){.jobs = jobs, .n_jobs = 2, .capacity_bytes = 30}, &split, err));
 *     // 9 ticks: a has 20 bytes and b 10; 5 bytes more reduce it to 8, and the dual bound here is also 9
 *     mp_share_split_free(&split);
 */
#pragma once

#include "memplan/plan.h"
#include "memplan/solver.h"

/* An option of a job: the bytes that a plan requires, and its ticks. */
typedef struct mp_share_option {
    int64_t bytes, ticks;
} mp_share_option;

typedef struct mp_share_job {
    size_t n;                       /* number of options of the job, at least 1 */
    const mp_share_option *options; /* options of the job, sorted by strictly ascending bytes and strictly descending ticks */
    int64_t static_bytes; /* static bytes of the job: the part of every option's bytes that stays live while other jobs run */
} mp_share_job;

typedef enum mp_share_way { MP_SHARE_BESIDE, MP_SHARE_TURNS, MP_N_SHARE_WAYS } mp_share_way;
typedef enum mp_share_goal { MP_SHARE_TOTAL, MP_SHARE_LONGEST, MP_N_SHARE_GOALS } mp_share_goal;
const char *mp_share_way_name(mp_share_way way);    /* "beside", "turns" */
const char *mp_share_goal_name(mp_share_goal goal); /* "total", "longest" */

typedef struct mp_share_request {
    size_t n_jobs; /* number of jobs that share the card, at least 1 */
    const mp_share_job *jobs;
    mp_share_way way;
    mp_share_goal goal;
    int64_t capacity_bytes;
} mp_share_request;

/* The best split of the memory. Its ticks are a piecewise constant function of the capacity. The price of a byte is the
 * slope of this function's lower convex hull at the given capacity. For the total time of jobs that run beside each other,
 * this slope is the Lagrange multiplier p of the capacity. The multiplier is a certificate that can be checked job by job:
 * sum over i of min over k of (t[i][k] + p b[i][k]), minus p C, equals hull_ticks. No split takes less than hull_ticks. */
typedef struct mp_share_split {
    bool fits; /* false: even the options with the fewest bytes exceed the capacity together. Only least_bytes is then set */
    int64_t least_bytes;  /* the smallest capacity for which a split exists */
    int64_t bytes, ticks; /* bytes and ticks of the best split. Of several splits with equal ticks, it is the one with the
                             fewest bytes. For MP_SHARE_LONGEST, the total time is a second criterion */
    size_t *chosen;       /* per job: index of the option that the split chooses */
    int64_t next_bytes, next_ticks;   /* the smallest capacity at which the best split takes fewer ticks, and these ticks; -1:
                                         more memory saves nothing */
    int64_t price_ticks, price_bytes; /* slope of the hull: price_bytes more bytes save price_ticks ticks. price_ticks 0: more
                                         bytes save nothing */
    int64_t hull_ticks; /* lower bound on the ticks of all splits from the convex hull, rounded up to whole ticks */
} mp_share_split;

/* Finds the best split, exactly. The options of the jobs are combined job by job. A combination is a sum of bytes and ticks; it
 * is dropped if another combination has fewer of both. If the jobs contain lower bounds instead of options, the result is a
 * lower bound on every split. On MP_OK release *out with mp_share_split_free. MP_INVALID: no jobs, or options out of order.
 * MP_LIMIT: a sum exceeds 63 bits, or there are more than MP_SHARE_MOST_SUMS sums. MP_NOMEM.
 *
 * Time: O(n m log nm) for each job with n options, if m combinations of the earlier jobs are kept. m is at most the product
 * of the numbers of options; for the longest time and by turns it is at most their sum. */
mp_status mp_share_split_of(const mp_share_request *request, mp_share_split *out, mp_error *err);
void mp_share_split_free(
    mp_share_split *split); /* releases the members of a split, not the struct; a zeroed struct is allowed */

enum { MP_SHARE_MOST_SUMS = 1 << 22 };

/* ---- how to find the options of a job ---- */

/* Progress function: called before each search (`search` NULL) and repeatedly during it, for search k of n. Return false to
 * stop with the results so far. */
typedef bool (*mp_share_progress)(size_t k, size_t n, const mp_progress *search, void *data);

typedef struct mp_share_plans_request {
    const mp_graph *graph;
    mp_problem *problem; /* cached results of the graph (problem.h), as in mp_request.problem; NULL: the search computes them */
    size_t n_budgets;    /* number of budgets for which plans are searched; 0: MP_SHARE_BUDGETS */
    int64_t n_steps;     /* number of training steps of the job; 0: one */
    double unit_seconds; /* length of a tick in the results, in seconds; 0: the graph's tick */
    const char *
        solver; /* `solver`, seed, moves, effort and keep_order have the meaning of the same members of mp_request (search.h) */
    uint64_t seed;
    int64_t moves;
    mp_effort effort;
    bool keep_order;
    mp_share_progress progress; /* function that receives the progress of the searches; NULL: none */
    void *progress_data;
} mp_share_plans_request;

enum { MP_SHARE_BUDGETS = 6 };

/* The plans of a job for several budgets, and lower bounds that hold for all plans. */
typedef struct mp_share_plans {
    int64_t static_bytes, floor_bytes;
    int64_t keep_all_bytes, keep_all_ticks; /* bytes and ticks of keep-all. The bytes include the arena. The ticks are the time
                                               of all n_steps training steps, in ticks of unit_seconds */
    size_t n;
    mp_plan **plans;          /* plans with offsets; each plan has passed mp_plan_check */
    mp_share_option *options; /* per plan: its required bytes, arena included, and its ticks */
    size_t n_bounds;
    mp_share_option *bounds; /* lower bounds, sorted by ascending bytes: a plan with fewer bytes than bounds[k + 1] takes at
                                least the ticks of bounds[k]. No plan fits in fewer bytes than bounds[0] */
    mp_bound_orders bound_orders; /* the set of plans for which the lower bounds are proved */
    bool stopped;
} mp_share_plans;

/* Plans a training graph for several budgets, as mp_solve_with_arena does, with a lower bound for each budget. Budgets are
 * evenly spaced from the smallest plan to keep-all. On MP_OK release *out with mp_share_plans_free. Deterministic. Errors as
 * mp_solve_with_arena. MP_LIMIT: the ticks of all steps exceed 62 bits. */
mp_status mp_share_plans_of(const mp_share_plans_request *request, mp_share_plans *out, mp_error *err);
/* The two parts of mp_share_plans_of. mp_share_plans_keep_all returns only keep-all; keep-all's own time is the lower bound,
 * because no plan is faster. mp_share_plans_more adds the plans for smaller budgets. You can skip it if all jobs fit with
 * keep-all. Errors as mp_share_plans_of. */
mp_status mp_share_plans_keep_all(const mp_share_plans_request *request, mp_share_plans *out, mp_error *err);
mp_status mp_share_plans_more(const mp_share_plans_request *request, mp_share_plans *plans, mp_error *err);
/* Searches plans for one more budget of the same request, and adds the new plans and bounds to *plans. Errors as
 * mp_share_plans_of; after an error *plans is still valid. */
mp_status mp_share_plans_add(const mp_share_plans_request *request, int64_t budget_bytes, mp_share_plans *plans, mp_error *err);
void mp_share_plans_free(mp_share_plans *plans); /* releases the plans and bounds, not the struct; a zeroed struct is allowed */
