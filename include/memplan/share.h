/* share.h - several jobs on one card: how to split its memory so that the jobs finish first, and the price of a byte.
 *
 * The time of a job is a step function of its budget. A job has options; an option states the required bytes and the resulting
 * ticks. A split chooses an option k(i) for every job i. Let b be the bytes and t the ticks of an option, s the static bytes of
 * a job, and C the capacity. The ways to share a card differ in the constraint:
 *
 *     beside      sum b[i][k(i)] <= C                        all jobs run at once and may reach their peaks together
 *     by turns    sum s[i] + max (b[i][k(i)] - s[i]) <= C    the jobs alternate after each step; only one holds activations
 *
 * The goal is the smallest total time, sum t[i][k(i)], or the smallest longest time, max t[i][k(i)].
 *
 *     const mp_share_option a[] = {{10, 9}, {20, 5}}, b[] = {{10, 4}, {15, 3}};
 *     const mp_share_job jobs[] = {{.options = a, .n = 2}, {.options = b, .n = 2}};
 *     mp_share_split split;
 *     MP_CHECK(mp_share_split_of(&(mp_share_request){.jobs = jobs, .n_jobs = 2, .capacity_bytes = 30}, &split, err));
 *     // 9 ticks: a has 20 bytes and b 10; 5 bytes more reduce it to 8, and the dual bound here is also 9
 *     mp_share_split_free(&split);
 */
#pragma once

#include "memplan/arena.h"
#include "memplan/solver.h"

/* An option of a job: its required bytes, and its ticks with that memory. */
typedef struct mp_share_option {
    int64_t bytes, ticks;
} mp_share_option;

typedef struct mp_share_job {
    size_t n;                       /* number of options, at least 1 */
    const mp_share_option *options; /* sorted by strictly ascending bytes and strictly descending ticks */
    int64_t static_bytes; /* static bytes of the job: the part of every option's bytes that stays live during the turns of other
                             jobs */
} mp_share_job;

/* Lock-step replaces two jobs by one combined job (mp_share_lockstep_of); a request then contains the combined job. */
typedef enum mp_share_way { MP_SHARE_BESIDE, MP_SHARE_TURNS, MP_SHARE_LOCKSTEP, MP_N_SHARE_WAYS } mp_share_way;
typedef enum mp_share_goal { MP_SHARE_TOTAL, MP_SHARE_LONGEST, MP_N_SHARE_GOALS } mp_share_goal;
const char *mp_share_way_name(mp_share_way way);    /* "beside", "turns", "lockstep" */
const char *mp_share_goal_name(mp_share_goal goal); /* "total", "longest" */

typedef struct mp_share_request {
    size_t n_jobs; /* number of jobs, at least 1 */
    const mp_share_job *jobs;
    mp_share_way way;
    mp_share_goal goal;
    int64_t capacity_bytes;
} mp_share_request;

/* The best split. Its ticks are a step function of the capacity. The price of a byte is the slope of the function's lower
 * convex hull at the capacity. For the total time of jobs that run beside each other, this slope is the Lagrange multiplier p
 * of the capacity. The multiplier is a certificate that can be checked job by job: sum over i of min over k of (t[i][k] + p
 * b[i][k]), minus p C, equals hull_ticks. No split takes less than hull_ticks. */
typedef struct mp_share_split {
    bool fits; /* false: the options with the fewest bytes exceed the capacity together; then only least_bytes is set */
    int64_t least_bytes;  /* the smallest capacity for which a split exists */
    int64_t bytes, ticks; /* bytes and ticks of the split; among equal splits the fewest bytes. For the goal of the longest
                             time, the total time is a second criterion */
    size_t *chosen;       /* per job: index of the chosen option */
    int64_t next_bytes,
        next_ticks; /* the smallest capacity at which the best split takes fewer ticks, and these ticks; -1: none */
    int64_t price_ticks, price_bytes; /* slope of the hull: price_bytes more bytes save price_ticks ticks. price_ticks 0: more
                                         bytes save nothing */
    int64_t hull_ticks;               /* lower bound from the convex hull, rounded up to whole ticks */
} mp_share_split;

/* Finds the exact best split. The step functions of the jobs are merged one by one, and sums that another sum beats in both
 * bytes and ticks are dropped. If the jobs contain lower bounds in place of options, the result is a lower bound on every
 * split. On MP_OK release *out with mp_share_split_free. MP_INVALID: no jobs, or options out of order. MP_LIMIT: a sum exceeds
 * 63 bits, or there are more than MP_SHARE_MOST_SUMS sums. MP_NOMEM.
 *
 * Time: O(n m log nm) for each job, with n options and m sums kept before it. m is at most the product of the numbers of
 * options; for the longest time and by turns it is at most their sum. */
mp_status mp_share_split_of(const mp_share_request *request, mp_share_split *out, mp_error *err);
void mp_share_split_free(mp_share_split *split); /* releases the members, not the struct; a zeroed struct is allowed */

enum { MP_SHARE_MOST_SUMS = 1 << 22 };

/* ---- the options of a job ---- */

/* Called before each search (`search` NULL) and during it, for search k of n. Return false to stop with the results so far. */
typedef bool (*mp_share_progress)(size_t k, size_t n, const mp_progress *search, void *data);

typedef struct mp_share_plans_request {
    const mp_graph *graph;
    mp_problem *problem; /* cached results of the graph, as mp_request.problem (search.h); NULL: none */
    size_t n_budgets;    /* number of budgets for which the job is planned; 0: MP_SHARE_BUDGETS */
    int64_t n_steps;     /* number of training steps of the job; 0: one */
    double unit_seconds; /* length of a tick in the results, in seconds; 0: the graph's tick */
    const char *solver;  /* this and the next four members: as the members of mp_request (search.h) with the same names */
    uint64_t seed;
    int64_t moves;
    mp_effort effort;
    bool keep_order;
    mp_share_progress progress; /* function that reports progress; NULL: none */
    void *progress_data;
} mp_share_plans_request;

enum { MP_SHARE_BUDGETS = 6 };

/* The plans of a job, and lower bounds that hold for all plans. */
typedef struct mp_share_plans {
    int64_t static_bytes, floor_bytes;
    int64_t keep_all_bytes, keep_all_ticks; /* keep_all_bytes includes the arena; keep_all_ticks is the time of all n_steps, in
                                               the requested unit */
    size_t n;
    mp_plan **plans;          /* plans with offsets; each has passed mp_plan_check */
    mp_share_option *options; /* per plan: its required bytes with arena, and its ticks */
    size_t n_bounds;
    mp_share_option *bounds; /* a plan with fewer bytes than bound k + 1 takes at least the ticks of bound k; no plan fits in
                                fewer bytes than bound 0 */
    mp_bound_orders bound_orders; /* the set of plans for which the bounds hold */
    bool stopped;
} mp_share_plans;

/* Plans a training graph for several budgets, as mp_solve_with_arena does, with a bound for each. Budgets are evenly spaced
 * from the smallest plan to keep-all. On MP_OK release *out with mp_share_plans_free. Deterministic. Errors as
 * mp_solve_with_arena. MP_LIMIT: the ticks of all steps exceed 62 bits. */
mp_status mp_share_plans_of(const mp_share_plans_request *request, mp_share_plans *out, mp_error *err);
/* mp_share_plans_of in two parts. mp_share_plans_keep_all returns only keep-all. Its own time is its bound, because no plan
 * is faster. mp_share_plans_more searches; it can be skipped if all jobs fit with keep-all. Errors as mp_share_plans_of. */
mp_status mp_share_plans_keep_all(const mp_share_plans_request *request, mp_share_plans *out, mp_error *err);
mp_status mp_share_plans_more(const mp_share_plans_request *request, mp_share_plans *plans, mp_error *err);
/* Plans for one more budget of the same request, and adds the new plans and bounds. Errors as mp_share_plans_of; after an error
 * *plans is still valid. */
mp_status mp_share_plans_add(const mp_share_plans_request *request, int64_t budget_bytes, mp_share_plans *plans, mp_error *err);
void mp_share_plans_free(mp_share_plans *plans); /* releases the members, not the struct; a zeroed struct is allowed */

/* ---- lock-step: two jobs run at once; an offset between their steps aligns the memory peaks of one with the valleys of the
 * other ---- */

/* A part of a memory profile, in which the live bytes are constant: `bytes` are live for `ticks`. */
typedef struct mp_share_level {
    int64_t ticks, bytes;
} mp_share_level;

/* The live bytes of a training step over time, static bytes included. */
typedef struct mp_share_profile {
    size_t n;               /* number of levels, at least 1 */
    mp_share_level *levels; /* levels in order of time; each lasts at least one tick */
} mp_share_profile;

enum { MP_SHARE_LEVELS = 128 };

/* Derives the memory profile of a plan. A tick of the profile lasts unit_seconds (0: the graph's tick). If there are more than
 * MP_SHARE_LEVELS levels, neighbours are merged in pairs at the higher level, so the profile is never below the plan. On MP_OK
 * release *out with mp_share_profile_free. Errors as mp_timeline_build and mp_makespan. */
mp_status mp_share_profile_of(const mp_graph *graph, const mp_plan *plan, double unit_seconds, mp_share_profile *out,
                              mp_error *err);
void mp_share_profile_free(mp_share_profile *profile); /* releases the members, not the struct; a zeroed struct is allowed */

typedef struct mp_share_offset {
    int64_t ticks;       /* delay of the second job's step behind the first job's step */
    int64_t peak_bytes;  /* the peak of both jobs together at this offset, the minimum over all offsets */
    int64_t bound_bytes; /* lower bound over all offsets: the peak of one job plus the minimum of the other */
} mp_share_offset;

/* Finds the best offset, in whole ticks, of two steps that repeat with one period. The result is exact. Two levels whose sum
 * exceeds a limit forbid the offsets at which they overlap; the limit is bisected until one offset is left. Among equal offsets
 * the smallest is returned. MP_INVALID: the profiles have different lengths, or a level has no ticks. MP_LIMIT: more than
 * MP_SHARE_MOST_SUMS pairs of levels. MP_NOMEM. O(p log p + p log bytes) for p pairs of levels. */
mp_status mp_share_offset_of(const mp_share_profile *first, const mp_share_profile *second, mp_share_offset *out,
                             mp_error *err);

/* Two jobs combined into one job: each option is a pair of their options. */
typedef struct mp_share_lockstep {
    size_t n;
    mp_share_option *options; /* bytes: the peak at the best offset; ticks: according to the goal */
    size_t (*pairs)[2];       /* per option: the option indices of the two jobs */
    mp_share_offset *offsets; /* per option */
} mp_share_lockstep;

/* Tries all pairs of options, each with its best offset, and drops pairs that another pair beats in bytes and ticks. The
 * shorter step waits at its end for the longer one. profiles[j][k] is the profile of option k of jobs[j]. On MP_OK release *out
 * with mp_share_lockstep_free. Errors as mp_share_offset_of. */
mp_status mp_share_lockstep_of(const mp_share_job jobs[2], const mp_share_profile *const profiles[2], mp_share_goal goal,
                               mp_share_lockstep *out, mp_error *err);
/* Like mp_share_lockstep_of, for lower bounds in place of options. While one job is at its bound, the other holds at least its
 * static bytes. */
mp_status mp_share_lockstep_bound(const mp_share_job jobs[2], mp_share_goal goal, mp_share_lockstep *out, mp_error *err);
void mp_share_lockstep_free(mp_share_lockstep *lockstep); /* a zeroed struct is allowed */

/* Finds the fastest pair of plans that fits in capacity_bytes with one common arena. Candidates are the pairs whose live bytes
 * fit. Pairs whose arena exceeds the capacity are removed from *lockstep. The bytes of the resulting pair are updated to
 * include its arena, and *out receives the offsets. If no pair fits, *out has no places, and *lockstep keeps only the pair with
 * the fewest bytes, including its arena. plans[j] are the plans behind the options of job j. On MP_OK release *out with
 * mp_arena_pair_free. Cost and errors as mp_arena_layout_pair for each pair tried. */
mp_status mp_share_lockstep_place(const mp_graph *const graphs[2], const mp_share_plans *const plans[2], double unit_seconds,
                                  int64_t capacity_bytes, mp_share_lockstep *lockstep, mp_arena_pair *out, mp_error *err);
