/* lagrange.h - decides for all activations at once which are kept for backward and which are recomputed: a minimum cut with a
 * Lagrange multiplier on the memory of every stage.
 *
 * A stage is the run of a node other than an update, in list order. The end of forward is the first stage of the loss or of
 * backward. Each output of an earlier stage that is read after the end of forward is kept or evicted. A kept output lives until
 * its last read. An evicted one is recomputed just before its first read after the end of forward, and lives until its last
 * read. Its recomputation needs its own inputs, kept or recomputed.
 *
 * Keeping an output costs its bytes times the multipliers of the stages in which it is live for later reads only. Recomputing
 * it costs ticks, and the multipliers of the stages from then on. The least total is a closure problem (Picard 1976): one cut.
 */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/math/mincut.h"

typedef struct mp_cut_labels {
    mp_pool *pool; /* owns all arrays */
    const mp_graph *graph;
    int n;                       /* number of stages */
    int *node;                   /* per stage: its node */
    int forward_end;             /* the first stage after forward; outputs of earlier stages are kept or recomputed */
    int *producer;               /* per storage: the stage before the end of forward that produces it; -1: no choice for it */
    int *last_early;             /* per storage: the stage of its last read before the end of forward, or else its producer */
    int *first_late, *last_late; /* per storage: first and last read from the end of forward on; without reads n and -1 */
    bool *repeatable;            /* per stage before the end of forward: recomputing it is allowed and useful */
    bool *is_kept;               /* per stage, set by the caller: its outputs are kept if any later stage needs them */
    /* from the labels of the previous cut: per stage, where it would be recomputed; per storage, the last stage at which it
     * would then be live */
    int *rerun, *rerun_end;
    mp_mincut *cut;
    int *storage_vertex, *stage_vertex; /* -1: none */
    int *arc_from, *arc_to;             /* from a storage to its producing stage, or from a stage to its inputs */
    size_t n_arcs, n_producing;         /* the first n_producing arcs connect storages and their producing stages */
    int64_t *scaled_ticks;              /* per stage: slightly larger for later stages, so that equal layers do not tie */
    double scale;                       /* scaled ticks per tick */
    int64_t capacity_limit;             /* the largest scaled cost of keeping a storage */
    /* set by the caller: schedules evict a recomputed storage again if keeping it until its next read costs more than another
     * recomputation */
    bool evicts_again;
    bool *recomputed;          /* per stage: set by mp_cut_labels_find */
    double *multiplier_before; /* scratch: per stage, the sum of the multipliers before it */
    /* per recomputed storage: the first stage that needs it; the next stage that does; and the stage before the end of forward
     * whose recomputation is the first need (-1: a later stage reads it directly) */
    int *needed, *next_needed, *needed_by;
} mp_cut_labels;

/* Builds the problem of a graph. Without loss and backward nodes, forward ends at the last stage but one. On MP_OK release *out
 * with mp_cut_labels_free (NULL is allowed). MP_NOMEM. O(list lengths). */
mp_status mp_cut_labels_new(const mp_graph *graph, mp_cut_labels **out, mp_error *err);
void mp_cut_labels_free(mp_cut_labels *labels);
MP_OWNER(mp_cut_labels_free, mp_cut_labels)

/* Sets `recomputed` to the cheapest labels for one multiplier per stage (>= 0, in ticks per byte). One cut: O(n^2 m) at worst,
 * close to linear in practice. */
void mp_cut_labels_find(mp_cut_labels *labels, const double *multiplier);

/* ---- the order of steps for given labels ---- */

/* Returns the stages in list order. From the end of forward on, the missing inputs of a stage are recomputed before it. Every
 * node runs at most twice; with `evicts_again`, there are at most 4 steps per node. Updates are placed as by mp_updates_place.
 * On MP_OK release *steps with mp_free. MP_NOMEM. O(list lengths + n log n). */
mp_status mp_lagrange_schedule(const mp_cut_labels *labels, mp_step **steps, size_t *n, mp_error *err);
