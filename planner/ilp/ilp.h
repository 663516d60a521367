/* ilp.h - recomputation as an integer linear programme, after Checkmate (Jain et al. 2020, arXiv 1910.02653).
 *
 * All nodes but the updates have places 0..n_places-1 in the order of the list. A set of stages cuts the places into stretches;
 * stage i first runs some forward nodes of earlier places again, in list order and each at most once, then its own stretch.
 * With a stage at every place this is Checkmate's formulation; with a few of them the leaner one: it decides per tensor and
 * boundary what is held, and recomputes only there. Base forms only.
 *
 * Columns: R, a node runs again in a stage; S, a storage is held into a stage (both integer); L, a storage is used at or after
 * a place of a stage, or held beyond it; P, an in-place pair fits. Where Checkmate linearises the moment of freeing, L says the
 * same with two rows each: at a recomputed node its storages are live if they are used from there on, so no product arises.
 * Memory rows: one per node that a stage may run. Sums, several outputs, workspace, in-place pairs and updates that hold their
 * gradients are in them.
 *
 * The rows never count more than the timeline does for a plan of this shape; what they may miss is carried gradients before
 * their update, room of updates that run after others in the same place, what updates write, and that in-place pairs take the
 * first that fits. So an optimum is no longer than any plan of this shape within the budget, up to the tolerances of
 * floating-point arithmetic. It says nothing about plans of other shapes: another order of first runs, a node twice in one
 * stage, recomputation in other places than the stages' beginnings, alternatives. That is why no lower bound is handed out.
 */
#ifndef PLANNER_ILP_H
#define PLANNER_ILP_H

#include "planner/search/solver.h"

typedef enum mp_ilp_kind { MP_ILP_RUN, MP_ILP_HELD, MP_ILP_USED, MP_ILP_IN_PLACE } mp_ilp_kind;

typedef struct mp_ilp_column {
    mp_ilp_kind kind;
    int stage;
    int place;   /* RUN, USED, IN_PLACE */
    int storage; /* HELD, USED; IN_PLACE: the one whose room is taken */
    int to;      /* IN_PLACE: the one that takes it */
} mp_ilp_column;

/* sum of coefficients times columns <= bound; `memory` rows: <= budget less static bytes + bound. */
typedef struct mp_ilp_row {
    size_t start, n; /* entries */
    int64_t bound;
    bool memory;
} mp_ilp_row;
typedef struct mp_ilp_entry {
    int column;
    int64_t coefficient; /* bytes in memory rows */
} mp_ilp_entry;

typedef struct mp_ilp_model {
    const mp_graph *graph;
    int n_places, n_stages;
    int *node;   /* place -> node */
    int *first;  /* stage -> its first place; first[n_stages] = n_places */
    bool *again; /* per place: may run again */
    int *birth;  /* per storage: the place that makes it, of a sum the first adder; -1: always live, or of an update */
    int *uses_start, *uses; /* per storage: the places that need it, ascending; n_places: what comes after all of them */
    int *run, *held;        /* columns: run[stage * n_places + place], held[stage * n_storages + storage]; -1: none */
    int *used;              /* used[stage * n_storages + storage]: the first of its USED columns, one per use that may run */
    size_t n_columns, columns_capacity, n_rows, rows_capacity, n_entries, entries_capacity;
    mp_ilp_column *columns;
    mp_ilp_row *rows;
    mp_ilp_entry *entries;
    int64_t static_bytes;
} mp_ilp_model;

/* The values of mp_ilp_used_from that are no columns. */
enum { MP_ILP_NEVER = -1, MP_ILP_ALWAYS = -2 };

/* The model with a stage at each of the ascending places first[1..n_stages); stage 0 begins at place 0. first NULL: a stage at
 * every place. *out is released with mp_ilp_model_free (NULL is fine). MP_NOT_APPLICABLE: no backward phase, or more than
 * most_columns columns. MP_NOMEM. O(stages * (places + storages)^2). */
mp_status mp_ilp_model_new(const mp_graph *graph, const int *first, int n_stages, size_t most_columns, mp_ilp_model **out,
                           mp_error *err);
void mp_ilp_model_free(mp_ilp_model *model);
/* The column that says whether, in this stage, a storage is used at `place` or after it or is held beyond the stage; or
 * MP_ILP_NEVER or MP_ILP_ALWAYS. */
int mp_ilp_used_from(const mp_ilp_model *model, int stage, int storage, int place);

/* Which nodes to run again so that what columns >= threshold say is held is there and every read is served: runs[stage *
 * n_places + place], the least set (x has a value per column). */
void mp_ilp_complete(const mp_ilp_model *model, const double *x, double threshold, bool *runs, bool *room);
/* The steps of these runs, updates placed; released with mp_free. MP_NOMEM. */
mp_status mp_ilp_steps(const mp_ilp_model *model, const bool *runs, mp_step **steps, size_t *n, mp_error *err);
/* The values of all columns for these runs; false if some row does not hold within the budget. `room`: 2 bool per storage. */
bool mp_ilp_columns(const mp_ilp_model *model, const bool *runs, int64_t budget_bytes, double *x, bool *room);

typedef struct mp_ilp_limits {
    int64_t most_nodes;          /* of the branch-and-bound tree */
    int64_t good_ticks;          /* plans no shorter than this are of no use; INT64_MAX: any is */
    int64_t tighter_bytes;       /* the rows' budget is by so much smaller than the plan's */
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
    int64_t excess_bytes; /* the least by which the plan of a solution of GLPK's was too large; 0: all fitted */
} mp_ilp_result;

/* Searches with GLPK. The same arguments give the same result, but for `seconds` and `stopped`. MP_LIMIT: GLPK broke off
 * with an error, or needs more room than 1 GiB. MP_NOMEM. Numerical trouble is no error: nothing is proved then; its
 * environment as in glpk_session.h. */
mp_status mp_ilp_search(const mp_ilp_model *model, int64_t budget_bytes, const mp_ilp_limits *limits, mp_ilp_result *result,
                        mp_error *err);

#endif
