/* ilp.h - formulates recomputation as an integer linear programme, after Checkmate (Jain et al. 2020, arXiv 1910.02653).
 *
 * All nodes except updates are numbered in list order. These numbers are the places 0..n_places-1. A stage is a range of
 * successive places. Stage i first recomputes some forward nodes of earlier stages, in list order and each at most once. Then
 * it runs the nodes of its own range. If every place is a stage of its own, the formulation is Checkmate's. With few stages the
 * programme is smaller, and recomputation is possible only at the begins of stages. Nodes run in their base alternative only.
 *
 * Columns:
 * - R (integer): a node is recomputed in a stage.
 * - S (integer): a storage is resident at the begin of a stage.
 * - L: a storage is used at or after a place of a stage, or resident at its end.
 * - P: an in-place pair applies.
 *
 * Checkmate linearises products of variables that state when a storage is freed. This formulation needs no such products: each
 * column L has two rows. While a recomputed node runs, a storage of the node is live if it is used there or later. There is a
 * memory row per node that a stage may run. Memory rows account for sums, several outputs, workspace, in-place pairs, and
 * gradients kept for updates.
 *
 * For a plan of this shape, the rows never count more bytes than the timeline. They may count less, because they omit some
 * bytes: carried gradients before their update, updates that follow others at the same place, outputs of updates, and the order
 * of in-place pairs. So an optimum takes no longer than any plan of this shape within the budget, up to floating-point
 * tolerances. It is no bound for plans of another shape: with another order of first runs, a node twice in a stage,
 * recomputation within a stage's range, or other alternatives. So the searcher reports no lower bound. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

/* the four kinds of columns: R, S, L and P in the head of this file */
typedef enum mp_ilp_kind { MP_ILP_RUN, MP_ILP_RESIDENT, MP_ILP_USED, MP_ILP_IN_PLACE } mp_ilp_kind;

typedef struct mp_ilp_column {
    mp_ilp_kind kind;
    int stage;
    int place;   /* set for RUN, USED, IN_PLACE */
    int storage; /* for RESIDENT and USED: the column's storage; for IN_PLACE: the storage whose memory is taken over */
    int to;      /* for IN_PLACE: the storage that takes over the memory */
} mp_ilp_column;

/* A constraint: the sum of coefficient * column is at most `bound`. If `memory` is set, the sum is at most budget - static
 * bytes + `bound`. */
typedef struct mp_ilp_row {
    size_t start, n; /* the coefficients of this row are entries[start .. start + n) */
    int64_t bound;
    bool memory;
} mp_ilp_row;
typedef struct mp_ilp_entry {
    int column;
    int64_t coefficient; /* in a memory row: bytes */
} mp_ilp_entry;

typedef struct mp_ilp_model {
    const mp_graph *graph;
    mp_pool *pool; /* owns all arrays except those with a capacity field */
    int n_places, n_stages;
    int *node;        /* place -> node */
    int *first;       /* first[i]: the first place of stage i of the integer programme; first[n_stages] = n_places */
    bool *repeatable; /* per place: true if the integer programme may recompute the node at this place */
    int *produced_at; /* per storage: the place of its producer or of its first adder; -1: static, or produced by an update */
    /* per storage: the places whose nodes use it, ascending; n_places means that it is used after all places */
    int *uses_start, *uses;
    /* column indices; -1: no such column. run[stage * n_places + place]: R; resident[stage * n_storages + storage]: S */
    int *run, *resident;
    /* used[stage * n_storages + storage]: index of the first L column of a stage and storage. The L columns of a stage and
     * storage are successive, one for each use whose node may run in the stage */
    int *used;
    size_t n_columns, columns_capacity, n_rows, rows_capacity, n_entries, entries_capacity;
    mp_ilp_column *columns;
    mp_ilp_row *rows;
    mp_ilp_entry *entries;
    int64_t static_bytes;
} mp_ilp_model;

/* Returns the base alternative of the node at this place. */
static inline const mp_alternative *mp_ilp_base(const mp_ilp_model *m, int place)
{
    return &m->graph->nodes[m->node[place]].alternatives[0];
}
/* Return a pointer to an element of the model's array run, resident or used. The element is the index of a column. */
static inline int *mp_ilp_run(const mp_ilp_model *m, int stage, int place)
{
    return &m->run[(size_t)stage * (size_t)m->n_places + (size_t)place];
}
static inline int *mp_ilp_resident(const mp_ilp_model *m, int stage, int storage)
{
    return &m->resident[(size_t)stage * m->graph->n_storages + (size_t)storage];
}
static inline int *mp_ilp_used(const mp_ilp_model *m, int stage, int storage)
{
    return &m->used[(size_t)stage * m->graph->n_storages + (size_t)storage];
}

void mp_ilp_model_free(mp_ilp_model *model); /* NULL is allowed */
MP_OWNER(mp_ilp_model_free, mp_ilp_model)

/* Returns the end of the range of places of a stage of the integer programme. For the last stage it is n_places + 1: place
 * n_places means "after all nodes" and belongs to the last stage. */
int mp_ilp_stage_end(const mp_ilp_model *model, int stage);
/* True if every plan uses the storage in this stage of the integer programme, at `place` or later, because a node of the
 * stage's own range uses it. O(uses). */
bool mp_ilp_has_fixed_use(const mp_ilp_model *model, int stage, int storage, int place);
/* Returns the index of the L column for the statement "in this stage of the integer programme the storage is used at `place` or
 * later, or is resident at its end". Returns MP_ILP_NEVER or MP_ILP_ALWAYS if the statement is always false or always true.
 * O(uses). */
enum { MP_ILP_NEVER = -1, MP_ILP_ALWAYS = -2 };
int mp_ilp_used_from(const mp_ilp_model *model, int stage, int storage, int place);

/* Appends a column and returns its number in *index. MP_NOMEM. */
mp_status mp_ilp_add_column(mp_ilp_model *model, mp_ilp_column column, int *index, mp_error *err);

/* Adds the rows of all stages of the integer programme, and the columns of in-place pairs (P). Precondition: the model has all
 * other columns. resident_for[node]: 1 + a storage that stays live until this update has run; 0: none. MP_NOMEM. */
mp_status mp_ilp_add_rows(mp_ilp_model *model, const int *resident_for, mp_error *err);

/* ---- ilp_build.c: builds the integer programme of a graph for given stages ---- */

/* Builds the integer programme whose stages begin at the ascending places first[1..n_stages). Stage 0 begins at place 0. first
 * NULL: a stage at every place. Release *out with mp_ilp_model_free. MP_NOT_APPLICABLE: no backward phase, or more than
 * most_columns columns. MP_NOMEM. O(k (p + s)^2) for k stages, p places and s storages. */
mp_status mp_ilp_model_new(const mp_graph *graph, const int *first, int n_stages, size_t most_columns, mp_ilp_model **out,
                           mp_error *err);

/* ---- ilp_plan.c: converts column values to executions of nodes, executions to steps, and executions to column values ---- */

/* Finds the smallest set of executions of nodes, runs[stage * n_places + place], in which every read finds its storage. A
 * storage stays resident if its RESIDENT column has a value >= threshold. x has one value per column. `work`: scratch of
 * n_storages bool. */
void mp_ilp_complete(const mp_ilp_model *model, const double *x, double threshold, bool *runs, bool *work);
/* Converts executions of nodes to steps, updates included. Release *steps with mp_free. MP_NOMEM. */
mp_status mp_ilp_steps(const mp_ilp_model *model, const bool *runs, mp_step **steps, size_t *n, mp_error *err);
/* Writes to x the values of all columns for the given executions of nodes. Returns false if they violate a row under this
 * budget. `work`: scratch of 2 * n_storages bool. */
bool mp_ilp_columns(const mp_ilp_model *model, const bool *runs, int64_t budget_bytes, double *x, bool *work);

/* ---- ilp_search.c: branch and bound by GLPK; the timeline judges its plans ---- */

typedef struct mp_ilp_limits {
    int64_t most_nodes;    /* limit on the number of nodes of the branch-and-bound tree */
    int64_t good_ticks;    /* only plans with fewer ticks than this limit are searched; INT64_MAX: all plans */
    int64_t tighter_bytes; /* the memory rows use the user's budget less this number of bytes */
    double seconds;        /* time limit of mp_ilp_search in seconds; <= 0: no limit */
    /* returns true to stop the search; called at every node of the tree and between slices of the first linear programme; may
     * be NULL */
    bool (*stopped)(void *data);
    void *data;
} mp_ilp_limits;

typedef struct mp_ilp_result {
    mp_step *steps; /* the plan with the fewest ticks, as judged by the timeline; NULL: none found. Release with mp_free */
    size_t n;
    int64_t peak_bytes, ticks;
    int64_t n_nodes; /* nodes of the branch-and-bound tree */
    /* true: the search was completed. Then `steps` is optimal: no plan of the model's shape with fewer ticks than good_ticks is
     * faster, up to floating-point tolerances. If `steps` is NULL, no such plan fits */
    bool proved;
    bool stopped; /* true: the search was ended early, by `stopped` or by the time limit */
    /* GLPK's solutions may exceed the budget when they are converted to plans. This is the least such excess in bytes; 0: a
     * plan fits */
    int64_t excess_bytes;
} mp_ilp_result;

/* Searches for the plan with the fewest ticks by branch and bound. Deterministic, except for `seconds` and `stopped`. MP_LIMIT:
 * GLPK failed with an error, or needs more than 1 GiB of memory. MP_NOMEM. If GLPK has numerical trouble, the result is MP_OK
 * and `proved` is false. GLPK's environment is treated as in linear.h. */
mp_status mp_ilp_search(const mp_ilp_model *model, int64_t budget_bytes, const mp_ilp_limits *limits, mp_ilp_result *result,
                        mp_error *err);
