/* lagrange.h - decides for all activations at once which are kept for backward and which are recomputed: a minimum cut with a
 * Lagrange multiplier on the memory of every stage.
 *
 * A stage is the run of a node other than an update, in list order. The end of forward is the first stage of the loss or of
 * backward. The decision concerns each output of an earlier stage that is read at or after the end of forward. A kept output
 * lives until its last read. An evicted output is recomputed just before its first read after the end of forward, and lives
 * until its last read. The recomputation needs its own inputs, kept or recomputed.
 *
 * The cost of keeping an output is its bytes times the multipliers of the stages in which it is live for later reads only. The
 * cost of recomputing it is ticks, plus its bytes times the multipliers of the stages after the recomputation. The least total
 * cost is a closure problem (Picard 1976): one minimum cut. */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/math/mincut.h"

typedef struct mp_cut_labels {
    mp_pool *pool; /* owns all arrays */
    const mp_graph *graph;
    int n;           /* number of stages */
    int *node;       /* per stage: its node */
    int forward_end; /* the first stage after forward; outputs of earlier stages are kept or recomputed */
    int *producer; /* per storage: the stage before the end of forward that produces it; -1: nothing to decide for this storage
                    */
    int *last_early; /* per storage: the stage of its last read before the end of forward, or else its producer */
    /* per storage: stages of its first and last read from the end of forward on; n and -1 if there is none */
    int *first_late, *last_late;
    bool *repeatable; /* per stage before the end of forward: recomputing it is allowed and useful */
    bool *is_kept;    /* per stage: its outputs are kept if any later stage needs them; set by the caller */
    /* from the previous cut. Per stage: where it would be recomputed. Per storage: the last stage at which it would be live
     * after this recomputation */
    int *rerun, *rerun_end;
    mp_mincut *cut;
    int *storage_vertex, *stage_vertex; /* vertex in the network of `cut`; -1: none */
    int *arc_from, *arc_to;     /* arcs of the network: from a storage to its producing stage, or from a stage to its inputs */
    size_t n_arcs, n_producing; /* the first n_producing arcs connect storages and their producing stages */
    int64_t *scaled_ticks; /* per stage: its ticks, scaled; slightly larger for later stages, so that equal layers do not tie */
    double scale;          /* scaled ticks per tick */
    int64_t capacity_limit; /* the largest scaled cost of keeping a storage */
    /* set by the caller: schedules evict a recomputed storage again if keeping it until its next read costs more than another
     * recomputation */
    bool evicts_again;
    bool *recomputed;          /* per stage: the stage is recomputed; set by mp_cut_labels_find */
    double *multiplier_before; /* scratch: per stage, the sum of the multipliers before it */
    /* per recomputed storage: the first stage that needs it; the next stage that needs it; and, if the first need is a
     * recomputation, the recomputed stage (-1: a later stage reads the storage directly) */
    int *needed, *next_needed, *needed_by;
} mp_cut_labels;

/* Builds the problem of a graph. If the graph has no loss and backward nodes, the last stage counts as the end of forward. On
 * MP_OK release *out with mp_cut_labels_free (NULL is allowed). MP_NOMEM. O(list lengths). */
mp_status mp_cut_labels_new(const mp_graph *graph, mp_cut_labels **out, mp_error *err);
void mp_cut_labels_free(mp_cut_labels *labels);
MP_OWNER(mp_cut_labels_free, mp_cut_labels)

/* Sets `recomputed` to the stages recomputed at least cost, for one multiplier per stage (>= 0, in ticks per byte). One
 * minimum cut: O(n^2 m) at worst, close to linear in practice. */
void mp_cut_labels_find(mp_cut_labels *labels, const double *multiplier);

/* ---- the order of steps for given decisions ---- */

/* Returns the steps of the stages in list order. From the end of forward on, the inputs of a stage that are not live are
 * recomputed before it. Every node runs at most twice; with `evicts_again`, there are at most 4 steps per node. Updates are
 * placed as by mp_updates_place. On MP_OK release *steps with mp_free. MP_NOMEM. O(list lengths + n log n). */
mp_status mp_lagrange_schedule(const mp_cut_labels *labels, mp_step **steps, size_t *n, mp_error *err);
