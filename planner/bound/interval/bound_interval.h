/* bound_interval.h - internal to the bound: a lower bound on the recomputation between the first runs of two nodes. The bound
 * is above 0 if memory is short at the first node.
 *
 * Order of calls: mp_bound_interval_start, then mp_bound_interval_end. The caller may then set `barred` and multipliers. Last,
 * mp_bound_interval_solve. *Scaled* ticks are ticks * scale_num / scale_den, so that multipliers can be integers. */
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
    /* bit set of nodes assumed to run after the next start, together with all their successors; NULL: none */
    const uint64_t *assumed_after;
    int64_t available_bytes; /* budget minus static bytes */
    int64_t scale_num, scale_den,
        ticks_bound;      /* scale_num / scale_den: factor from ticks to scaled ticks; ticks_bound: scaled ticks of all nodes */
    int *node_vertex;     /* per node: its vertex in the network of `cut`; -1: none */
    int *storage_vertex;  /* per storage: its vertex in the network; -1: none */
    int *producer_vertex; /* per storage: the vertex of its producer (for a sum, one vertex for all adders); -1: not produced in
                             any interval */
    int *storage_arc;     /* per storage: the arc from its vertex to producer_vertex; -1: none */
    int *producers_start, *producers; /* per storage: its producer, or all adders of a sum */
    int *producer_arc;                /* per entry of producers: the arc from the sum's vertex to this adder; -1: not a sum */
    /* number of arcs with unbounded capacity, which lead from nodes to their inputs and are the first arcs */
    size_t n_unbounded;
    /* set by mp_bound_interval_start: */
    int at;
    int64_t free_bytes; /* bytes of free memory at the start; negative: the needs of the start node alone do not fit */
    int64_t *bytes; /* per storage: bytes of free_bytes that it takes if it is live at the start; 0: none, or not needed by the
                       interval */
    int64_t *ticks; /* per node: ticks of a rerun in the interval; 0 if the first run of the node may be in the interval */
    bool *must_be_live; /* per storage: it cannot be recomputed, and in every plan it is live at the start and later */
    bool *can_be_made;  /* per storage: a node of the interval can produce it */
    bool *must_pass;    /* per storage: it cannot be recomputed, so it is live at the start if it was produced before */
    /* set by mp_bound_interval_end: */
    int *required; /* storages that nodes of the interval read */
    size_t n_required;
    bool *is_required; /* per storage: it is in `required` */
    bool *covers_two;  /* per storage: it also represents a second storage, which is produced from it; some node of the interval
                          reads one of the two */
    /* set by the caller, all false at first: */
    bool *barred; /* per storage: it must not be live at the start */
    /* per storage, scaled ticks: price of being live at the start; reward for being available in the interval; NULL: all 0 */
    const int64_t *live_multiplier, *reward;
    /* per node, scaled ticks of a run in the interval, used instead of `ticks`; NULL: `ticks` is used */
    const int64_t *run_ticks;
    /* the labels of the two cuts around the best multiplier: labels[0] exceeds the free memory, labels[1] fits */
    struct mp_bound_labels {
        bool *live;      /* per storage: live at the start */
        bool *available; /* per storage: live at the start or produced in the interval; set only if the interval needs it */
    } labels[2];
    mp_bound_work work; /* work of all calls so far */
    int64_t *best;      /* scratch of mp_bound_interval_start: zero per storage */
    /* scratch of mp_bound_interval_solve: */
    int *stack;
    struct mp_bound_labels spare;
    bool *runs; /* per node: it runs in the interval */
} mp_bound_interval;

typedef struct mp_bound_value {
    bool infeasible;   /* the storages that must be live at the start do not fit */
    int64_t ticks;     /* lower bound: ticks in the interval, first runs excluded */
    int64_t scaled;    /* lower bound in scaled ticks, minus rewards, not rounded; may be negative */
    double share;      /* weight of labels[0] in the mixture of both labels that exactly fills the free memory */
    double multiplier; /* the best multiplier, in ticks per byte; 0: memory is not short */
} mp_bound_value;

/* Creates a network from which the intervals of a graph are bounded. On MP_OK release *out with mp_bound_interval_free (NULL
 * is allowed), before the order. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err);
void mp_bound_interval_free(mp_bound_interval *x);
MP_OWNER(mp_bound_interval_free, mp_bound_interval)

/* From now on an interval also counts nodes whose only run may be on either side of its start. Either their outputs are live
 * at the start, or their inputs are needed after it. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_add_undecided(mp_bound_interval *x, mp_error *err);

/* Sets the start of the interval: right after the first run of this node. O(graph). */
void mp_bound_interval_start(mp_bound_interval *x, int node);
/* Sets the end of the interval: the first run of a node that follows the start; -1: the end of the step. Must be called once
 * after each mp_bound_interval_start. O(graph). */
void mp_bound_interval_end(mp_bound_interval *x, int node);
/* Returns the bytes of activations that are live at the start if the interval recomputes nothing: those produced before the
 * start in every plan and read in the interval. */
int64_t mp_bound_interval_live_in(const mp_bound_interval *x);
/* Returns the best bound over all memory multipliers. O(a few cuts). */
mp_bound_value mp_bound_interval_solve(mp_bound_interval *x);
/* Returns the least scaled ticks of the interval at the multipliers that the caller set, minus rewards. Memory has no price of
 * its own. The value may be negative. O(one cut). */
int64_t mp_bound_interval_at_multipliers(mp_bound_interval *x);
int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks);
/* Returns the smallest number of ticks whose scaled value is at least `scaled` (>= 0). */
int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled);
