/* share.h - several jobs on one card: the split of its memory that finishes them first, with the price of a byte.
 *
 * A job's time is a step function of its budget: it has options, each with the bytes that it needs and the ticks that it then
 * takes. A split chooses an option k(i) for every job i. With b the bytes and t the ticks of an option, s the bytes of a job
 * that are always live, and C the capacity, the ways to share differ in what has to fit:
 *
 *     beside      sum b[i][k(i)] <= C                        all jobs have their peaks at once
 *     by turns    sum s[i] + max (b[i][k(i)] - s[i]) <= C    a step of one job, then of the next: one has activations at a time
 *
 * and the goals in what is smallest: the total, sum t[i][k(i)], or the longest, max t[i][k(i)].
 *
 *     const mp_share_option a[] = {{10, 9}, {20, 5}}, b[] = {{10, 4}, {15, 3}};
 *     const mp_share_job jobs[] = {{.options = a, .n = 2}, {.options = b, .n = 2}};
 *     mp_share_split split;
 *     MP_CHECK(mp_share_split_of(&(mp_share_request){.jobs = jobs, .n_jobs = 2, .capacity_bytes = 30}, &split, err));
 *     // 9 ticks: a has 20 bytes and b 10; 5 bytes more would make it 8, and no price of a byte promises less than 9 here
 *     mp_share_split_free(&split);
 */
#pragma once

#include "memplan/arena.h"
#include "memplan/solver.h"

/* With so many bytes a job takes so many ticks. */
typedef struct mp_share_option {
    int64_t bytes, ticks;
} mp_share_option;

typedef struct mp_share_job {
    size_t n;                       /* at least 1 */
    const mp_share_option *options; /* by ascending bytes and descending ticks, both strictly */
    int64_t static_bytes;           /* of those bytes, what is live when another job has its turn */
} mp_share_job;

/* In lock-step two jobs have been made one (mp_share_lockstep_of), so that a request has that one. */
typedef enum mp_share_way { MP_SHARE_BESIDE, MP_SHARE_TURNS, MP_SHARE_LOCKSTEP, MP_N_SHARE_WAYS } mp_share_way;
typedef enum mp_share_goal { MP_SHARE_TOTAL, MP_SHARE_LONGEST, MP_N_SHARE_GOALS } mp_share_goal;
const char *mp_share_way_name(mp_share_way way);    /* "beside", "turns", "lockstep" */
const char *mp_share_goal_name(mp_share_goal goal); /* "total", "longest" */

typedef struct mp_share_request {
    size_t n_jobs; /* at least 1 */
    const mp_share_job *jobs;
    mp_share_way way;
    mp_share_goal goal;
    int64_t capacity_bytes;
} mp_share_request;

/* The best split. Its ticks as a function of the capacity are a step function too; the price is the slope of its lower convex
 * hull at the capacity. For the total of jobs beside each other this is the Lagrange multiplier p of the capacity, and the
 * certificate that anybody can check job by job: sum over i of min over k of (t[i][k] + p b[i][k]), less p C, is hull_ticks,
 * and no split takes less. */
typedef struct mp_share_split {
    bool fits;            /* false: not even the smallest options fit; then only least_bytes is set */
    int64_t least_bytes;  /* the smallest capacity for which there is a split */
    int64_t bytes, ticks; /* what the split takes; of equals the fewest bytes. For the longest, the total is then as small
                           * as the capacity permits */
    size_t *chosen;       /* per job */
    int64_t next_bytes, next_ticks;   /* the smallest capacity with fewer ticks, and those; -1: there is none */
    int64_t price_ticks, price_bytes; /* so many ticks for so many bytes; 0 ticks: more bytes are worth nothing */
    int64_t hull_ticks;               /* rounded up, as ticks are whole */
} mp_share_split;

/* Finds the best split, exactly: job by job the step functions are merged, and of the sums only those are kept that no other
 * one beats in both bytes and ticks. With the lower bounds of the jobs in place of their options the result is a lower bound on
 * every split. On MP_OK *out is released with mp_share_split_free. MP_INVALID: no jobs, or options out of order. MP_LIMIT: a
 * sum does not fit in 63 bits, or there are over MP_SHARE_MOST_SUMS of them. MP_NOMEM. O(n m log nm) for each job, of n options
 * and m sums kept before it, at most the product of the numbers of options; for the longest and by turns at most their sum. */
mp_status mp_share_split_of(const mp_share_request *request, mp_share_split *out, mp_error *err);
void mp_share_split_free(mp_share_split *split); /* a zeroed one is fine */

enum { MP_SHARE_MOST_SUMS = 1 << 22 };

/* ---- what a job can do ---- */

/* Called before each search (`search` NULL) and during it; this is search k of n. Return false to stop with what there is. */
typedef bool (*mp_share_progress)(size_t k, size_t n, const mp_progress *search, void *data);

typedef struct mp_share_plans_request {
    const mp_graph *graph;
    mp_problem *problem; /* as in mp_request */
    size_t n_budgets;    /* 0: MP_SHARE_BUDGETS */
    int64_t n_steps;     /* the training steps that the job runs; 0: one */
    double unit_seconds; /* of the ticks of the result; 0: the graph's own */
    const char *solver;  /* this and what follows as in mp_request */
    uint64_t seed;
    int64_t moves;
    mp_effort effort;
    bool keep_order;
    mp_share_progress progress; /* may be NULL */
    void *progress_data;
} mp_share_plans_request;

enum { MP_SHARE_BUDGETS = 6 };

/* The plans that a job can run by, and what is proved of all others. */
typedef struct mp_share_plans {
    int64_t static_bytes, floor_bytes;
    int64_t keep_all_bytes, keep_all_ticks; /* keep_all_bytes with its arena; ticks of all steps, in the unit */
    size_t n;
    mp_plan **plans;          /* with offsets, each checked */
    mp_share_option *options; /* per plan: what it needs with its arena, and takes */
    size_t n_bounds;
    mp_share_option *bounds;      /* nothing within fewer bytes than those of bound k + 1 takes fewer ticks than bound k says;
                                   * nothing at      all fits in fewer than the first has */
    mp_bound_orders bound_orders; /* the plans that the bounds hold for */
    bool stopped;
} mp_share_plans;

/* Plans a training graph for several budgets, evenly spaced from the smallest plan to keep-all, as mp_solve_with_arena does,
 * with the bound for each. On MP_OK *out is released with mp_share_plans_free. Deterministic. Errors as mp_solve_with_arena;
 * MP_LIMIT: the ticks of all steps do not fit in 62 bits. */
mp_status mp_share_plans_of(const mp_share_plans_request *request, mp_share_plans *out, mp_error *err);
/* mp_share_plans_of in two parts. The first has keep-all alone, and the bound that nothing is faster: where all jobs fit with
 * it, the second, which searches, has nothing to add. Errors likewise. */
mp_status mp_share_plans_keep_all(const mp_share_plans_request *request, mp_share_plans *out, mp_error *err);
mp_status mp_share_plans_more(const mp_share_plans_request *request, mp_share_plans *plans, mp_error *err);
/* Plans for one more budget, with the same request, and takes what that adds to plans and bounds. Errors likewise; after one
 * the plans are as good as before. */
mp_status mp_share_plans_add(const mp_share_plans_request *request, int64_t budget_bytes, mp_share_plans *plans, mp_error *err);
void mp_share_plans_free(mp_share_plans *plans); /* releases its members, not the struct; a zeroed one is fine */

/* ---- in lock-step: two jobs at once, the step of one so long after that of the other that valleys meet peaks ---- */

/* So many bytes are live for so many ticks. */
typedef struct mp_share_level {
    int64_t ticks, bytes;
} mp_share_level;

/* The live bytes of a step over time, what is always live included. */
typedef struct mp_share_profile {
    size_t n;               /* at least 1 */
    mp_share_level *levels; /* of at least one tick each */
} mp_share_profile;

enum { MP_SHARE_LEVELS = 128 };

/* Derives the profile of a plan, in ticks of so many seconds (0: the graph's). More than MP_SHARE_LEVELS levels are joined two
 * by two, each pair at the higher one, so that the profile is never below the plan. On MP_OK *out is released with
 * mp_share_profile_free. As mp_timeline_build and mp_makespan. */
mp_status mp_share_profile_of(const mp_graph *graph, const mp_plan *plan, double unit_seconds, mp_share_profile *out,
                              mp_error *err);
void mp_share_profile_free(mp_share_profile *profile); /* a zeroed one is fine */

typedef struct mp_share_offset {
    int64_t ticks;       /* the second job's step begins so long after the first one's */
    int64_t peak_bytes;  /* the most that both have at any time, at this offset; no other one has less */
    int64_t bound_bytes; /* what no offset goes below: the peak of one, and the least of the other */
} mp_share_offset;

/* Finds the best offset of two steps that repeat with one period, in whole ticks, exactly: levels whose sum is over a limit
 * forbid the offsets at which they meet, and the limit is bisected until just one offset is left. Of equals the smallest.
 * MP_INVALID: the profiles are not equally long, or have levels of no ticks. MP_LIMIT: over MP_SHARE_MOST_SUMS pairs of levels.
 * MP_NOMEM. O(p log p + p log bytes) for p pairs of levels. */
mp_status mp_share_offset_of(const mp_share_profile *first, const mp_share_profile *second, mp_share_offset *out,
                             mp_error *err);

/* Two jobs made one: its options are pairs of theirs. */
typedef struct mp_share_lockstep {
    size_t n;
    mp_share_option *options; /* bytes: the best offset's peak; ticks as the goal has it */
    size_t (*pairs)[2];       /* per option: those of the two jobs */
    mp_share_offset *offsets; /* per option */
} mp_share_lockstep;

/* Tries all pairs of options, each with its best offset, and keeps those that no other one beats. The shorter step waits at its
 * border for the longer one. profiles[j][k] is that of option k of jobs[j]. On MP_OK *out is released with
 * mp_share_lockstep_free. As mp_share_offset_of. */
mp_status mp_share_lockstep_of(const mp_share_job jobs[2], const mp_share_profile *const profiles[2], mp_share_goal goal,
                               mp_share_lockstep *out, mp_error *err);
/* As mp_share_lockstep_of for lower bounds in place of options: what one has, the other has at least what is always live. */
mp_status mp_share_lockstep_bound(const mp_share_job jobs[2], mp_share_goal goal, mp_share_lockstep *out, mp_error *err);
void mp_share_lockstep_free(mp_share_lockstep *lockstep); /* a zeroed one is fine */

/* Looks for the fastest pair that fits in so many bytes with one arena for both plans, of those that fit by their live bytes.
 * Pairs whose arena is over it are removed; the one that is found has the bytes with its arena. *out are its offsets, as
 * mp_arena_layout_pair; without places if none fits: then the pair of the fewest bytes is left alone, and has those with its
 * arena. plans[j] are those that the options were made of. On MP_OK *out is released with mp_arena_pair_free. As
 * mp_arena_layout_pair for each pair that is tried. */
mp_status mp_share_lockstep_place(const mp_graph *const graphs[2], const mp_share_plans *const plans[2], double unit_seconds,
                                  int64_t capacity_bytes, mp_share_lockstep *lockstep, mp_arena_pair *out, mp_error *err);
