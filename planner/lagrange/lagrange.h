/* lagrange.h - the choice, for all activations of a graph at once, which are kept for backward and which are recomputed: a
 * minimum cut, with a Lagrange multiplier on the memory of every stage.
 *
 * A stage is the run of a node that is no update, in list order. At the end of forward, the first stage of the loss or of
 * backward, every output of the stages before is either kept until its last read after it, or evicted and recomputed just
 * before its first read after it, and then live until its last read. Its recomputation needs its own inputs, kept or
 * recomputed.
 *
 * Keeping costs the bytes times the multipliers of the stages in which it is live for nothing but later reads; recomputing
 * costs ticks, and the multipliers of the stages from then on. The least total is a closure problem (Picard 1976): one cut.
 */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/math/mincut.h"

typedef struct mp_cut_labels {
    mp_pool *pool; /* of all arrays */
    const mp_graph *graph;
    int n;           /* stages */
    int *node;       /* per stage */
    int forward_end; /* the first stage after forward: outputs of the stages before are kept or recomputed */
    int *producer;   /* per storage: the stage before the end of forward that produces it, if there is a choice; -1 */
    int *last_early; /* per storage: its last read before the end of forward, else its producer */
    int *first_late, *last_late; /* per storage: its first and last read from the end of forward on; n and -1: none */
    bool *repeatable;            /* per stage before the end of forward: its node may be recomputed, and that can be of use */
    bool *is_kept;               /* per stage, set by the caller: its outputs are kept, if they are needed at all */
    int *rerun, *rerun_end;      /* by the labels of the cut before: per stage, where it would be recomputed; per storage, the
                                    last stage in which it would then be live */
    mp_mincut *cut;
    int *storage_vertex, *stage_vertex; /* -1: none */
    int *arc_from, *arc_to;             /* a storage and the stage that produces it, or a stage and a storage that it reads */
    size_t n_arcs, n_producing;         /* the first n_producing arcs are of the first sort */
    int64_t *scaled_ticks;              /* per stage: later ones count slightly more, so that equal layers are told apart */
    double scale;                       /* scaled ticks per tick */
    int64_t capacity_limit;             /* of the cost of keeping a storage, scaled */
    bool evicts_again;                  /* set by the caller: schedules evict what is recomputed if its multipliers until the
                                           next read cost more than recomputing it once more */
    bool *recomputed;                   /* per stage: set by mp_cut_labels_find */
    double *multiplier_before;          /* work: per stage, the sum of the multipliers of those before */
    /* per storage, of what is recomputed: the stage from which it is needed, the next stage that needs it, and the stage before
       the end of forward for whose recomputation the first is (-1: a later stage reads it itself) */
    int *needed, *next_needed, *needed_by;
} mp_cut_labels;

/* The problem of a graph; in one without loss and backward nodes forward ends with the last stage but one. On MP_OK *out is
 * released with mp_cut_labels_free (NULL is fine). MP_NOMEM. O(list lengths). */
mp_status mp_cut_labels_new(const mp_graph *graph, mp_cut_labels **out, mp_error *err);
void mp_cut_labels_free(mp_cut_labels *labels);
MP_OWNER(mp_cut_labels_free, mp_cut_labels)

/* Sets `recomputed` to the cheapest labels for the multipliers: ticks per byte, >= 0, one per stage. One cut, O(n^2 m) at worst
 * and near linear in practice. */
void mp_cut_labels_find(mp_cut_labels *labels, const double *multiplier);

/* ---- the order of steps that follows from labels ---- */

/* The stages in list order, and before each from the end of forward on the recomputation of what it lacks. Every node runs at
 * most twice, unless `evicts_again` is set; then there are at most 4 steps for each node. Updates as mp_updates_place puts
 * them. On MP_OK *steps is released with mp_free. MP_NOMEM. O(list lengths + n log n). */
mp_status mp_lagrange_schedule(const mp_cut_labels *labels, mp_step **steps, size_t *n, mp_error *err);
