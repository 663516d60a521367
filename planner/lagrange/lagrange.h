/* lagrange.h - decides for all activations at once which are kept for backward and which are recomputed. The decision is a
 * minimum cut in which the memory of every stage has a price, its Lagrange multiplier.
 *
 * Stages are the nodes in list order, without updates. The end of forward is the first stage of the loss or of backward. A
 * storage is subject to the decision if it is produced before the end of forward and read at or after it. A kept output lives
 * until its last read. An evicted output is recomputed just before its first read after the end of forward, and lives until its
 * last read. The recomputation needs its own inputs, kept or recomputed.
 *
 * A kept output costs its bytes times a sum of multipliers: those of the stages in which it is live only because of later
 * reads. A recomputed output costs the ticks of the recomputation. It also costs its bytes times the sum of the multipliers
 * from the recomputation to its last read. The least total cost is a closure problem (Picard 1976): one minimum cut. */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/math/mincut.h"

typedef struct mp_cut_labels {
    mp_pool *pool; /* owns all arrays */
    const mp_graph *graph;
    int n;           /* number of stages */
    int *node;       /* per stage: its node */
    int forward_end; /* the first stage (node in list order) that is a loss or backward node */
    /* per storage: the stage before the end of forward that produces it; -1: the storage is not subject to the decision */
    int *producer;
    int *last_early; /* per storage: its last read before the end of forward, as a stage; without such a read, its producer */
    /* per storage: its first and last read at or after the end of forward, as stages; n and -1 if there is none */
    int *first_late, *last_late;
    bool *repeatable; /* per stage (node) before the end of forward: it may be recomputed, and recomputing it may be useful */
    bool *is_kept;    /* per stage (node): its outputs must be kept if a later stage reads them; set by the caller */
    /* as computed from the previous minimum cut. rerun, per stage: the stage before which it would be recomputed. rerun_end,
     * per storage: the last stage at which it would be live after this recomputation */
    int *rerun, *rerun_end;
    mp_mincut *cut;
    /* storage_vertex, per storage: its vertex in the network of the minimum cut. stage_vertex, per stage (node): its vertex.
     * -1: none */
    int *storage_vertex, *stage_vertex;
    /* the arcs of the network; each leads from a storage to the stage that produces it, or from a stage to an input of the
     * stage */
    int *arc_from, *arc_to;
    size_t n_arcs, n_producing; /* the first n_producing arcs lead from storages to the stages that produce them */
    /* per stage (node): its ticks in scaled units, slightly larger for later stages so that equal layers have different
     * costs */
    int64_t *scaled_ticks;
    double scale;           /* scaled ticks per tick */
    int64_t capacity_limit; /* the largest cost of keeping a storage, in scaled units */
    /* set by the caller. true: a recomputed storage is evicted again if keeping it until its next read costs more than another
     * recomputation */
    bool evicts_again;
    bool *recomputed;          /* per stage (node): true if it is recomputed; result of mp_cut_labels_find */
    double *multiplier_before; /* scratch, per stage: the sum of the multipliers of all earlier stages */
    /* per recomputed storage. needed: the first stage that needs it. next_needed: the next stage that needs it. needed_by: the
     * recomputed stage that needs it first; -1: a later stage reads the storage directly */
    int *needed, *next_needed, *needed_by;
} mp_cut_labels;

/* Creates the network of a graph. In a graph without loss and backward nodes, the last stage counts as the end of forward. On
 * MP_OK release *out with mp_cut_labels_free (NULL is allowed). MP_NOMEM. O(list lengths). */
mp_status mp_cut_labels_new(const mp_graph *graph, mp_cut_labels **out, mp_error *err);
void mp_cut_labels_free(mp_cut_labels *labels);
MP_OWNER(mp_cut_labels_free, mp_cut_labels)

/* Sets `recomputed` to the choice of recomputed stages with the least total cost. There is one multiplier per stage, i.e. node
 * in list order (>= 0, in ticks per byte). One minimum cut: O(n^2 m) at worst, close to linear in practice. */
void mp_cut_labels_find(mp_cut_labels *labels, const double *multiplier);

/* ---- the order of steps that follows from the decisions ---- */

/* Returns steps that run the stages in list order. From the end of forward on, inputs of a stage that are not live are
 * recomputed just before the stage. Every node runs at most twice; with `evicts_again`, there are at most 4 steps per node.
 * Updates are placed as by mp_updates_place. On MP_OK release *steps with mp_free. MP_NOMEM. O(list lengths + n log n). */
mp_status mp_lagrange_schedule(const mp_cut_labels *labels, mp_step **steps, size_t *n, mp_error *err);
