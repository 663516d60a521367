/* bound_interval.h - bounds the recomputation between the first runs of two nodes, if memory is short at the first. Internal to
 * the bound.
 *
 * Order of calls: mp_bound_interval_start, then mp_bound_interval_end. The caller may then set `barred` and multipliers. Last,
 * mp_bound_interval_solve. *Scaled* ticks are ticks * scale_num / scale_den, so that multipliers can be integers.
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
    /* default end of an interval: the first run of this node; -1: the end of the step */
    int default_end;
    /* bit set of nodes assumed, with all their successors, to follow the next start; or NULL */
    const uint64_t *assumed_after;
    int64_t available_bytes; /* budget minus static bytes */
    int64_t scale_num, scale_den,
        ticks_bound;      /* scale_num / scale_den: scale of ticks in the cut; ticks_bound: the scaled sum over all nodes */
    int *node_vertex;     /* per node: its vertex; -1: none */
    int *storage_vertex;  /* per storage: its vertex; -1: none */
    int *producer_vertex; /* per storage: the vertex of its producer (for a sum, one vertex for all adders); -1: not produced in
                             any interval */
    int *storage_arc;     /* per storage: the arc to producer_vertex; -1: none */
    int *producers_start, *producers; /* per storage: its producer, or all adders of a sum */
    int *producer_arc;                /* per entry of producers: the arc from the sum's vertex to this adder; -1: not a sum */
    size_t n_unbounded;               /* the first arcs, with unbounded capacity: from nodes to their inputs */
    /* set by mp_bound_interval_start: */
    int at;
    int64_t free_bytes; /* free memory at the start; negative: not even the needs of node `at` fit */
    int64_t *bytes;     /* per storage: its share of free_bytes if it is live; 0: free, or not needed by the interval */
    int64_t *ticks;     /* per node: ticks of a run in the interval, not counting its first run */
    bool *must_be_live; /* per storage: cannot be recomputed, and every plan has it live at the start and later */
    bool *can_be_made;  /* per storage: if not live at the start, a node of the interval can produce it */
    bool *must_pass;    /* per storage: cannot be recomputed, and is live at the start if it was produced before */
    /* set by mp_bound_interval_end: */
    int *required; /* storages that nodes of the interval read */
    size_t n_required;
    bool *is_required; /* per storage: it is in `required` */
    bool *covers_two;  /* per storage: it also represents a storage produced from it, since some node reads one of the two */
    /* set by the caller, all false at first: */
    bool *barred; /* per storage: it must not be live at the start */
    /* per storage, scaled ticks: price of being live at the start; reward for being available in the interval. NULL: none */
    const int64_t *live_multiplier, *reward;
    const int64_t *run_ticks; /* per node, scaled ticks: replaces `ticks`. NULL: not replaced */
    /* the two labellings around the best multiplier: [0] exceeds the free memory, [1] fits */
    struct mp_bound_labels {
        bool *live;      /* per storage: live at the start */
        bool *available; /* per storage: live at the start or produced in the interval, where it matters */
    } labels[2];
    mp_bound_work work; /* work of all calls so far */
    int64_t *best;      /* scratch of mp_bound_interval_start: zero per storage */
    /* scratch of mp_bound_interval_solve: */
    int *stack;
    struct mp_bound_labels spare;
    bool *runs; /* per node: it runs in the interval */
} mp_bound_interval;

typedef struct mp_bound_value {
    bool infeasible;   /* the storages that must be live do not fit */
    int64_t ticks;     /* lower bound: ticks in the interval, first runs excluded */
    int64_t scaled;    /* the same bound, scaled, minus rewards, not rounded; may be negative */
    double share;      /* weight of labels[0] in the mixture of the two labellings that just fits */
    double multiplier; /* the best multiplier, in ticks per byte; 0: memory is not short */
} mp_bound_value;

/* On MP_OK release *out with mp_bound_interval_free (NULL is allowed), before the order. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err);
void mp_bound_interval_free(mp_bound_interval *x);
MP_OWNER(mp_bound_interval_free, mp_bound_interval)

/* From now on an interval also counts nodes that run once on either side of its start. Either their outputs are live at the
 * start, or their inputs are needed after it. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_add_undecided(mp_bound_interval *x, mp_error *err);

/* Sets the start of the interval: right after the first run of this node. O(graph). */
void mp_bound_interval_start(mp_bound_interval *x, int node);
/* Sets the end of the interval: the first run of a node that follows the start; -1: the end of the step. Must be called once
 * after each mp_bound_interval_start. O(graph). */
void mp_bound_interval_end(mp_bound_interval *x, int node);
/* Returns the bytes of activations that are live at the start if the interval recomputes nothing: every plan produces them
 * before, and the interval reads them. */
int64_t mp_bound_interval_live_in(const mp_bound_interval *x);
/* Returns the best bound over all memory multipliers. O(a few cuts). */
mp_bound_value mp_bound_interval_solve(mp_bound_interval *x);
/* Returns the least scaled ticks of the interval at the caller's multipliers, minus rewards, without a memory multiplier. May
 * be negative. O(one cut). */
int64_t mp_bound_interval_at_multipliers(mp_bound_interval *x);
int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks);
/* Returns the smallest number of ticks that is at least `scaled` (>= 0) when scaled. */
int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled);
