/* bound_interval.h - internal to the bound: a lower bound on the recomputation between the first runs of two nodes. The bound
 * is above 0 if memory is short at the first node.
 *
 * Order of calls: mp_bound_interval_start, then mp_bound_interval_end. Then the caller may set `barred` and the multipliers.
 * The last call is mp_bound_interval_solve. *Scaled* ticks are ticks * scale_num / scale_den, so that multipliers can be
 * integers. */
#pragma once

#include "memplan/bound_stage.h"
#include "memplan/memory.h"
#include "planner/math/mincut.h"
#include "planner/order/precedence.h"

typedef struct mp_bound_interval {
    mp_pool *pool; /* owns all arrays except `producers` and `producer_arc` */
    const mp_precedence *order;
    mp_mincut *cut;
    /* the interval ends at the first run of this node, unless mp_bound_interval_end sets another end; -1: at the end of the
     * step */
    int default_end;
    /* a set of nodes that are assumed to run after the start that the next mp_bound_interval_start sets, and that contains all
     * their successors; NULL: none */
    const uint64_t *assumed_after;
    int64_t available_bytes; /* budget minus static bytes */
    int64_t scale_num, scale_den,
        /* scale_num / scale_den converts ticks to scaled ticks; ticks_bound: the scaled ticks of all nodes together */
        ticks_bound;
    int *node_vertex;    /* per node: its vertex in the network of the minimum cut; -1: none */
    int *storage_vertex; /* per storage: its vertex in the network of the minimum cut; -1: none */
    /* per storage: the vertex of its producer, or for a sum one vertex for all adders; -1: no interval produces the storage */
    int *producer_vertex;
    int *storage_arc;                 /* per storage: the arc from storage_vertex to producer_vertex; -1: none */
    int *producers_start, *producers; /* per storage: its producer, or all adders of a sum */
    /* per entry of `producers`: for a sum, the arc from the sum's producer_vertex to this adder; -1: not a sum */
    int *producer_arc;
    /* the first n_unbounded arcs have unbounded capacity; they lead from nodes to their inputs */
    size_t n_unbounded;
    /* set by mp_bound_interval_start: */
    int at;
    int64_t free_bytes; /* bytes of free memory at the start; negative: the start node alone exceeds the memory */
    /* per storage: bytes of free memory that it occupies if it is live at the start; 0: none, or the interval does not read
     * it */
    int64_t *bytes;
    int64_t *ticks;     /* per node: ticks that a run of the node in the interval costs; 0 if the run may be the node's first */
    bool *must_be_live; /* per storage: it cannot be recomputed, and in every plan it is live from the start on */
    bool *can_be_made;  /* per storage: a node of the interval can produce it */
    /* per storage: it cannot be recomputed. If it was produced before the start, it is therefore live at the start */
    bool *must_pass;
    /* set by mp_bound_interval_end: */
    int *required; /* the storages that nodes of the interval read in every alternative */
    size_t n_required;
    bool *is_required; /* per storage: true if the list `required` contains it */
    /* per storage: it also represents a second storage, which is produced from it, because a node of the interval reads one of
     * the two */
    bool *covers_two;
    /* the caller may set the four fields below; at first barred is false everywhere and the others are NULL */
    bool *barred; /* per storage: true if only labellings in which the storage is not live at the start are allowed */
    /* in scaled ticks per storage. live_multiplier: cost of being live at the start; reward: gain for being available at the
     * end; NULL: all 0 */
    const int64_t *live_multiplier, *reward;
    /* in scaled ticks per node: cost of a run in the interval, instead of `ticks`; NULL: `ticks` is used */
    const int64_t *run_ticks;
    /* labels[0] and labels[1] are the labellings of the minimum cuts on both sides of the best multiplier. labels[0] needs more
     * than the free memory, labels[1] fits */
    struct mp_bound_labels {
        bool *live; /* per storage: in this labelling it is live at the start */
        /* per storage: live at the start or produced in the interval; only set for storages that the interval reads */
        bool *available;
    } labels[2];
    mp_bound_work work; /* work of all calls for this network so far */
    int64_t *best;      /* scratch of mp_bound_interval_start, per storage; all entries are zero between calls */
    /* scratch of mp_bound_interval_solve: */
    int *stack;
    struct mp_bound_labels spare;
    bool *runs; /* scratch, per node: true if the node runs in the interval */
} mp_bound_interval;

typedef struct mp_bound_value {
    bool infeasible;   /* true if the storages that are live at the start of the interval in every plan do not fit in memory */
    int64_t ticks;     /* lower bound on the ticks in the interval, first runs of nodes excluded */
    int64_t scaled;    /* the lower bound in scaled ticks, minus rewards, without rounding; it may be negative */
    double share;      /* weight of labels[0] in the mixture of the two labellings that needs exactly the free memory */
    double multiplier; /* the best multiplier, in ticks per byte; 0: memory is not short */
} mp_bound_value;

/* Creates the network that yields the bounds of all intervals of a graph. On MP_OK release *out with mp_bound_interval_free
 * (NULL is allowed), before the order. MP_NOMEM. O(graph size). */
mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err);
void mp_bound_interval_free(mp_bound_interval *x);
MP_OWNER(mp_bound_interval_free, mp_bound_interval)

/* Makes later bounds consider nodes that run only once, before the start in some plans and after it in others. If such a node
 * runs before the start, its outputs are live at the start. Otherwise its inputs are needed after the start. MP_NOMEM. O(graph
 * size). */
mp_status mp_bound_interval_add_undecided(mp_bound_interval *x, mp_error *err);

/* Sets the start of the interval: right after the first run of this node. O(graph size). */
void mp_bound_interval_start(mp_bound_interval *x, int node);
/* Sets the end of the interval: the first run of a node that follows the start; -1: the end of the step. Must be called once
 * after each mp_bound_interval_start. O(graph size). */
void mp_bound_interval_end(mp_bound_interval *x, int node);
/* Returns the bytes of activations that are live at the start if the interval recomputes nothing: those produced before the
 * start in every plan and read in the interval. */
int64_t mp_bound_interval_live_in(const mp_bound_interval *x);
/* Returns the best bound on the interval's ticks, over all multipliers on memory. A few minimum cuts. */
mp_bound_value mp_bound_interval_solve(mp_bound_interval *x);
/* Returns the least sum of scaled ticks, costs and rewards of the interval, at the multipliers that the caller set. The free
 * memory is not limited. The value may be negative. One minimum cut. */
int64_t mp_bound_interval_at_multipliers(mp_bound_interval *x);
int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks);
/* Returns the smallest number of ticks whose scaled value is at least `scaled` (>= 0). */
int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled);
