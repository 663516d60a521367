/* bound_interval.h - the recomputation that is necessary between the first runs of two nodes if memory is short at the first.
 * For the bound's stages.
 *
 * Calls come in this order: mp_bound_interval_start, mp_bound_interval_end, then the caller may set `barred` and multipliers,
 * then mp_bound_interval_solve. *Scaled* ticks are ticks * scale_num / scale_den, so that multipliers can be integers.
 */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/math/mincut.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_interval {
    mp_pool *pool; /* owns all arrays except producers and producer_arc */
    const mp_precedence *order;
    mp_mincut *cut;
    int default_end; /* an interval without an end of its own ends at the first run of this node; -1: at the end of the step */
    const uint64_t *assumed_after; /* bit set: nodes assumed, with all they precede, to come after the next start; or NULL */
    int64_t available_bytes;       /* budget less static bytes */
    int64_t scale_num, scale_den,
        ticks_bound;      /* the factor scale_num / scale_den of ticks in the cut; the scaled sum over all nodes */
    int *node_vertex;     /* per node: its vertex, -1: none */
    int *storage_vertex;  /* per storage: its vertex, -1: none */
    int *producer_vertex; /* per storage: the vertex of its producer (for a sum, one vertex for all adders); -1: no node
                           * produces it in an interval */
    int *storage_arc;     /* per storage: the arc to producer_vertex, -1: none */
    int *producers_start, *producers; /* per storage: its producer, or for a sum all adders */
    int *producer_arc;                /* per entry of producers: the arc from the sum's vertex to this adder, -1: not a sum */
    size_t n_unbounded;               /* the first arcs, with unbounded capacity: from nodes to what they read */
    /* set by mp_bound_interval_start */
    int at;
    int64_t free_bytes; /* free memory at the start; negative: even what node `at` needs does not fit */
    int64_t *bytes;     /* per storage: its share of free_bytes if it is live; 0 also if the interval does not need it */
    int64_t *ticks;     /* per node: the ticks of a run in the interval beyond its first run */
    bool *must_be_live; /* per storage: true if it cannot be recomputed, and every plan has it live at the start and later */
    bool *can_be_made;  /* per storage: true if a node of the interval can produce it, should it not be live at the start */
    bool *must_pass;    /* per storage: true if it cannot be recomputed, and is live at the start if it is produced before */
    /* set by mp_bound_interval_end */
    int *required; /* storages that nodes of the interval read */
    size_t n_required;
    bool *is_required; /* per storage: true if in `required` */
    bool *covers_two;  /* per storage: true if it also represents a storage that is produced from it; some node reads one of
                        * the two */
    /* set by the caller, all false at first */
    bool *barred;                            /* per storage: true if it may not be live at the start */
    const int64_t *live_multiplier, *reward; /* per storage, scaled ticks: the price of being live at the start, and the
                                              * reward for being available at some time in the interval. NULL: none */
    const int64_t *run_ticks;                /* per node, scaled ticks: replaces `ticks`. NULL: not replaced */
    /* the two labellings around the best multiplier: [0] exceeds the free memory, [1] fits */
    struct mp_bound_labels {
        bool *live;      /* per storage: live at the start */
        bool *available; /* per storage: live at the start or produced in the interval, if that matters */
    } labels[2];
    mp_bound_work work; /* the work of all calls so far */
    int64_t *best;      /* work of mp_bound_interval_start: zero per storage */
    /* work of mp_bound_interval_solve */
    int *stack;
    struct mp_bound_labels spare;
    bool *runs; /* per node: true if it runs in the interval */
} mp_bound_interval;

typedef struct mp_bound_value {
    bool infeasible;   /* true if even the storages that must be live do not fit */
    int64_t ticks;     /* the lower bound: ticks in the interval beyond first runs */
    int64_t scaled;    /* the same bound scaled, less rewards, and not rounded; may be negative */
    double share;      /* the weight of labels[0] in the mixture of both labellings that just fits */
    double multiplier; /* the best multiplier, in ticks per byte; 0: memory is not short */
} mp_bound_value;

/* On MP_OK *out is released with mp_bound_interval_free (NULL is fine) before the order. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err);
void mp_bound_interval_free(mp_bound_interval *x);
MP_OWNER(mp_bound_interval_free, mp_bound_interval)

/* From now on an interval also counts nodes that run once, on either side of its start: either their outputs are live at the
 * start, or their inputs are needed after it. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_add_undecided(mp_bound_interval *x, mp_error *err);

/* Sets the start of the interval: right after the first run of this node. O(graph). */
void mp_bound_interval_start(mp_bound_interval *x, int node);
/* Sets the end of the interval: at the first run of a node that the start precedes; -1: the end of the step. Must be called
 * once after each start. O(graph). */
void mp_bound_interval_end(mp_bound_interval *x, int node);
/* Returns the bytes of activations that are live at the start if nothing is recomputed in the interval: every plan produces
 * them before, and the interval reads them. */
int64_t mp_bound_interval_live_in(const mp_bound_interval *x);
/* Returns the best bound over all multipliers of memory. O(some cuts). */
mp_bound_value mp_bound_interval_solve(mp_bound_interval *x);
/* Returns the least scaled ticks of the interval at the caller's multipliers, less rewards, without a multiplier of memory.
 * May be negative. O(one cut). */
int64_t mp_bound_interval_at_multipliers(mp_bound_interval *x);
int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks);
/* Returns the smallest number of ticks that gives at least `scaled` (>= 0) when scaled. */
int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled);
