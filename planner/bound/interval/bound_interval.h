/* bound_interval.h - the recomputation that is necessary between the first runs of two nodes when memory is short at the first.
 * For the bound's stages.
 *
 * Calls come in this order: mp_bound_interval_start, mp_bound_interval_end, then the caller may set `barred` and multipliers,
 * then mp_bound_interval_solve. *Scaled* ticks are ticks * scale_num / scale_den, for multipliers that are integers.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "planner/math/mincut.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_interval {
    mp_pool *pool; /* of all arrays but makers and maker_arc */
    const mp_precedence *order;
    mp_mincut *cut;
    int until;                  /* -1, or the node at whose first run all intervals end that otherwise would at the end */
    const uint64_t *also_after; /* nodes that come after the next start too, and all that they precede; NULL: none */
    int64_t available_bytes;    /* the budget less static bytes */
    int64_t scale_num, scale_den,
        ticks_bound;     /* ticks are scaled by scale_num / scale_den for the cut; the sum over nodes, scaled */
    int *node_vertex;    /* per node: its vertex, -1: none */
    int *storage_vertex; /* per storage: likewise */
    int *
        maker_vertex; /* per storage: of its producer, or for a sum of all who add to it; -1: nothing makes it in an interval */
    int *storage_arc; /* per storage: the arc to that, -1: none */
    int *makers_start, *makers; /* per storage: those nodes */
    int *maker_arc;             /* per entry of makers: the arc from a sum, -1: it is no sum */
    size_t n_unbounded;         /* the first arcs, of unbounded capacity: from nodes to what they read */
    /* set by mp_bound_interval_start */
    int at;
    int64_t free_bytes; /* for what is live at the start; negative: not even what node `at` needs fits */
    int64_t *bytes;     /* per storage: what it takes of the free memory if it is live; 0: nothing, or it does not matter */
    int64_t *ticks;     /* per node: a run in the interval, beyond its first */
    bool *kept;         /* per storage: it cannot be recomputed, and is live at the start and later in every plan */
    bool *is_made;      /* per storage: where it is not live at the start, it can be made in the interval */
    bool *is_left;      /* per storage: it cannot be recomputed, and if it was made before the start, it is live there */
    /* set by mp_bound_interval_end */
    int *required; /* storages that nodes of the interval read */
    size_t n_required;
    bool *is_required; /* per storage */
    bool *covers_two;  /* per storage: it stands for itself and another that is produced from it: one of the two is read */
    /* set by the caller, all false at first */
    bool *barred;                            /* per storage: it may not be live at the start */
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
    bool infeasible;   /* even what has to be live at the least does not fit */
    int64_t ticks;     /* the interval takes at least as much beyond first runs */
    int64_t scaled;    /* as `ticks`, less rewards, scaled and not rounded; may be negative */
    double share;      /* of labels[0], where labels[1] has the rest, in the mixture that just fits */
    double multiplier; /* ticks a byte, at which the bound is best; 0: memory is not short */
} mp_bound_value;

/* On MP_OK *out is released with mp_bound_interval_free (NULL is fine) before the order. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err);
void mp_bound_interval_free(mp_bound_interval *x);

/* From now on nodes that may run on either side of a start count, where they run once: either what they make is live at the
 * start, or what they read is needed after it. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_add_undecided(mp_bound_interval *x, mp_error *err);

/* The interval begins after the first run of a node. O(graph). */
void mp_bound_interval_start(mp_bound_interval *x, int node);
/* It ends with the first run of a node that the start precedes; -1: at the end of the step. Once after each start. O(graph). */
void mp_bound_interval_end(mp_bound_interval *x, int node);
/* The bytes of activations that are live at the start if nothing is recomputed in the interval: produced before in every plan,
 * and read in it. */
int64_t mp_bound_interval_live_in(const mp_bound_interval *x);
/* Some cuts. */
mp_bound_value mp_bound_interval_solve(mp_bound_interval *x);
/* The least that the interval costs at the caller's multipliers alone, without a multiplier of memory, less rewards; scaled,
 * may be negative. One cut. */
int64_t mp_bound_interval_at_multipliers(mp_bound_interval *x);
int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks);
/* The least ticks that come, scaled, to at least this much; scaled >= 0. */
int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled);
