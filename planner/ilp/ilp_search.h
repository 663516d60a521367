/* ilp_search.h - GLPK's branch and bound solves an integer programme of recomputation; the timeline judges what it finds. */
#pragma once

#include "memplan/timeline.h"
#include "planner/ilp/ilp_model.h"

typedef struct mp_ilp_limits {
    int64_t most_nodes;          /* of the branch-and-bound tree */
    int64_t good_ticks;          /* plans no shorter than this are of no use; INT64_MAX: any is */
    int64_t tighter_bytes;       /* by so much the rows' budget is smaller than the plan's */
    double seconds;              /* for the whole call; <= 0: no limit */
    bool (*stopped)(void *data); /* polled at every node and between slices of the first linear programme; may be NULL */
    void *data;
} mp_ilp_limits;

typedef struct mp_ilp_result {
    mp_step *steps; /* the shortest plan that was found, judged by the timeline; NULL: none. Released with mp_free */
    size_t n;
    int64_t peak_bytes, ticks;
    int64_t n_nodes; /* of branch and bound */
    bool proved;     /* the search came to its end: no plan of the model's shape is shorter (without steps: or none fits), up to
                        the tolerances of floating-point arithmetic and among those shorter than good_ticks */
    bool stopped;    /* by `stopped` or `seconds` */
    int64_t excess_bytes; /* the least by which the plan of one of GLPK's solutions was too large; 0: all fitted */
} mp_ilp_result;

/* The same arguments give the same result, but for `seconds` and `stopped`. MP_LIMIT: GLPK broke off with an error, or needs
 * more than 1 GiB of memory. MP_NOMEM. Numerical trouble is no error: nothing is proved then; GLPK's environment as in
 * linear.h. */
mp_status mp_ilp_search(const mp_ilp_model *model, int64_t budget_bytes, const mp_ilp_limits *limits, mp_ilp_result *result,
                        mp_error *err);
