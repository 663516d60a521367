/* bound_interval.h - the recomputation that is necessary between the first runs of two nodes when memory is short at the first.
 * For the bound's stages.
 *
 * Calls come in this order: mp_bound_interval_start, mp_bound_interval_end, then the caller may set `barred` and multipliers,
 * then mp_bound_interval_solve. *Scaled* ticks are ticks * scale_num / scale_den, for multipliers that are integers.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/math/mincut.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_interval {
    mp_pool *pool; /* of all arrays but producers and producer_arc */
    const mp_precedence *order;
    mp_mincut *cut;
    int until; /* the node at whose first run intervals end that have no end of their own; -1: at the end of the step */
    const uint64_t
        *assumed_after; /* a set: these nodes, and all that they precede, are taken to come after the next start; NULL: none */
    int64_t available_bytes; /* the budget less static bytes */
    int64_t scale_num, scale_den,
        ticks_bound;      /* ticks are scaled by scale_num / scale_den for the cut; the sum over nodes, scaled */
    int *node_vertex;     /* per node: its vertex, -1: none */
    int *storage_vertex;  /* per storage: likewise */
    int *producer_vertex; /* per storage: the vertex of its producer, or, of a sum, one for all who add to it; -1: no node
                             produces it in an interval */
    int *storage_arc;     /* per storage: the arc to producer_vertex, -1: none */
    int *producers_start, *producers; /* per storage: its producer, or all who add to it */
    int *producer_arc;                /* per entry of producers: the arc from the sum's vertex, -1: the storage is no sum */
    size_t n_unbounded;               /* the first arcs, of unbounded capacity: from nodes to what they read */
    /* set by mp_bound_interval_start */
    int at;
    int64_t free_bytes; /* of the budget, for what is live at the start; negative: not even what node `at` needs fits */
    int64_t *bytes; /* per storage: what it takes of free_bytes if it is live; 0: nothing, or the interval does not need it */
    int64_t *ticks; /* per node: a run in the interval, beyond its first */
    bool *must_be_live; /* per storage: true if it cannot be recomputed, and every plan has it live at the start and later */
    bool *can_be_made;  /* per storage: true if a node of the interval can produce it where it is not live at the start */
    bool *must_pass;    /* per storage: true if it cannot be recomputed, and is live at the start once it is produced before */
    /* set by mp_bound_interval_end */
    int *required; /* storages that nodes of the interval read */
    size_t n_required;
    bool *is_required; /* per storage */
    bool *covers_two; /* per storage: true if it stands for itself and for another that is produced from it: one of them is read
                       */
    /* set by the caller, all false at first */
    bool *barred;                            /* per storage: true if it may not be live at the start */
    const int64_t *live_multiplier, *reward; /* per storage, scaled ticks: for being live at the start, beside its memory;
                                           less, if it is available at some time of the interval. NULL: none */
    const int64_t *run_ticks;                /* per node, scaled ticks: instead of `ticks`. NULL: none */
    /* the two labellings between which the best multiplier lies: one that goes over the free memory, and one that fits */
    struct mp_bound_labels {
        bool *live;      /* per storage: at the start */
        bool *available; /* per storage: live or produced in the interval, as far as that matters */
    } labels[2];
    mp_bound_work work; /* what has been done with it so far */
    /* for mp_bound_interval_solve alone */
    int *stack;
    struct mp_bound_labels spare;
    bool *runs; /* per node: in the interval */
} mp_bound_interval;

typedef struct mp_bound_value {
    bool infeasible;   /* true if even what must be live does not fit */
    int64_t ticks;     /* the interval takes at least as much beyond first runs */
    int64_t scaled;    /* as `ticks`, less rewards, scaled and not rounded; may be negative */
    double share;      /* of labels[0], where labels[1] has the rest, in the mixture that just fits */
    double multiplier; /* ticks a byte, at which the bound is best; 0: memory is not short */
} mp_bound_value;

/* On MP_OK *out is released with mp_bound_interval_free (NULL is fine) before the order. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err);
void mp_bound_interval_free(mp_bound_interval *x);
MP_OWNER(mp_bound_interval_free, mp_bound_interval)

/* From now on nodes that may run on either side of a start count, where they run once: either what they make is live at the
 * start, or what they read is needed after it. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_add_undecided(mp_bound_interval *x, mp_error *err);

/* Lets the interval begin right after the first run of a node. O(graph). */
void mp_bound_interval_start(mp_bound_interval *x, int node);
/* Lets it end with the first run of a node that the start precedes; -1: at the end of the step. To be called once after each
 * start. O(graph). */
void mp_bound_interval_end(mp_bound_interval *x, int node);
/* Returns the bytes of activations that are live at the start if nothing is recomputed in the interval: every plan produces
 * them before, and the interval reads them. */
int64_t mp_bound_interval_live_in(const mp_bound_interval *x);
/* Returns the best bound over all multipliers of memory. O(some cuts). */
mp_bound_value mp_bound_interval_solve(mp_bound_interval *x);
/* Returns the least scaled ticks that the interval costs at the caller's multipliers, less rewards, without a multiplier of
 * memory; may be negative. O(one cut). */
int64_t mp_bound_interval_at_multipliers(mp_bound_interval *x);
int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks);
/* Returns the least ticks that are at least `scaled` >= 0 when they are scaled. */
int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled);
