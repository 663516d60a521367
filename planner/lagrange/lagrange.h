/* lagrange.h - decides for all activations of a graph at once which are kept for backward and which are recomputed: a minimum
 * cut, with a Lagrange multiplier on the memory of every stage.
 *
 * A stage is the run of a node that is no update, in list order. The end of forward is the first stage of the loss or of
 * backward. Every output of the stages before it is either kept until its last read after it, or evicted; then it is recomputed
 * just before its first read after it, and lives until its last. Its recomputation needs its own inputs, kept or recomputed.
 *
 * Keeping costs the bytes times the multipliers of the stages in which the output is live for later reads only; recomputing
 * costs ticks, and the multipliers of the stages from then on. The least total is a closure problem (Picard 1976): one cut.
 */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/math/mincut.h"

typedef struct mp_cut_labels {
    mp_pool *pool; /* owns all arrays */
    const mp_graph *graph;
    int n;           /* number of stages */
    int *node;       /* per stage: its node */
    int forward_end; /* the first stage after forward; outputs of the stages before it are kept or recomputed */
    int *producer;   /* per storage: the stage before the end of forward that produces it, -1 if there is no choice */
    int *last_early; /* per storage: the stage of its last read before the end of forward, or else its producer */
    int *first_late, *last_late; /* per storage: first and last read from the end of forward on; n and -1: none */
    bool *repeatable;            /* per stage before the end of forward: recomputing it is allowed and useful */
    bool *is_kept;               /* per stage, set by the caller: its outputs are kept if anything needs them */
    int *rerun, *rerun_end;      /* by the labels of the cut before: per stage, where it would be recomputed; per storage,
                                  * the last stage at which it would be live then */
    mp_mincut *cut;
    int *storage_vertex, *stage_vertex; /* -1: none */
    int *arc_from, *arc_to;             /* from a storage to its producing stage, or from a stage to what it reads */
    size_t n_arcs, n_producing;         /* the first n_producing arcs join storages and their producing stages */
    int64_t *scaled_ticks;              /* per stage: slightly more for later stages, so that no two equal layers tie */
    double scale;                       /* scaled ticks per tick */
    int64_t capacity_limit;             /* largest scaled cost of keeping a storage */
    bool evicts_again;                  /* set by the caller: a schedule evicts a recomputed storage again if its multipliers
                                         * up to the next read cost more than another recomputation */
    bool *recomputed;                   /* per stage: set by mp_cut_labels_find */
    double *multiplier_before;          /* work: per stage, the sum of the multipliers before it */
    /* per recomputed storage: the stage that first needs it, the next that does, and the stage before the end of forward
     * whose recomputation is the first need (-1: a later stage reads it itself) */
    int *needed, *next_needed, *needed_by;
} mp_cut_labels;

/* Makes the problem of a graph; without loss and backward nodes, forward ends at the last stage but one. On MP_OK *out is
 * released with mp_cut_labels_free (NULL is fine). MP_NOMEM. O(list lengths). */
mp_status mp_cut_labels_new(const mp_graph *graph, mp_cut_labels **out, mp_error *err);
void mp_cut_labels_free(mp_cut_labels *labels);
MP_OWNER(mp_cut_labels_free, mp_cut_labels)

/* Sets `recomputed` to the cheapest labels for one multiplier per stage, >= 0, in ticks per byte. One cut: O(n^2 m) at
 * worst, near linear in practice. */
void mp_cut_labels_find(mp_cut_labels *labels, const double *multiplier);

/* ---- the order of steps that follows from labels ---- */

/* Gives the stages in list order; from the end of forward on, each follows the recomputation of its inputs that are not
 * live. Every node runs at most twice, or, with `evicts_again`, there are at most 4 steps per node. Updates as
 * mp_updates_place puts them. On MP_OK *steps is released with mp_free. MP_NOMEM. O(list lengths + n log n). */
mp_status mp_lagrange_schedule(const mp_cut_labels *labels, mp_step **steps, size_t *n, mp_error *err);
