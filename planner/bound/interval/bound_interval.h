/* bound_interval.h - the recomputation that is necessary between the first runs of two nodes when memory is short at the first.
 * For the bound's stages.
 *
 * Calls come in this order: mp_bound_interval_start, mp_bound_interval_end, then the caller may set fates and multipliers, then
 * mp_bound_interval_solve. *Scaled* ticks are ticks * scale_num / scale_den, for multipliers that are integers.
 */
#ifndef PLANNER_BOUND_INTERVAL_H
#define PLANNER_BOUND_INTERVAL_H

#include "memplan/bound_stage.h"
#include "planner/math/mincut.h"
#include "planner/order/precedence.h"

/* What a search has settled about a storage: whether it is held at the start. */
enum { MP_BOUND_OPEN, MP_BOUND_HELD, MP_BOUND_NOT_HELD };

typedef struct mp_bound_interval {
    const mp_precedence *order;
    mp_mincut *cut;
    int until;               /* -1, or the node at whose first run all intervals end that otherwise would at the end */
    int64_t available_bytes; /* the budget less static bytes */
    int64_t up, down, most;  /* ticks are scaled by up / down for the cut; the sum over nodes, scaled */
    int *node_vertex;        /* per node: its vertex, -1: none */
    int *storage_vertex;     /* per storage: likewise */
    int *make_arc;           /* per storage: the arc to who makes it again, -1: none can */
    size_t n_unbounded;      /* the first arcs, of unbounded capacity: from nodes to what they read */
    /* set by mp_bound_interval_start */
    int at;
    int64_t room_bytes; /* for what is held; negative: not even what node `at` needs has room */
    int64_t *bytes;     /* per storage: what it takes of the room if it is held; 0: it is there anyway, or need not be */
    int64_t *ticks;     /* per node: a run in the interval, beyond its first */
    bool *kept;         /* per storage: it certainly lives at the start, and later */
    /* set by mp_bound_interval_end */
    int *required; /* storages that nodes of the interval read */
    size_t n_required;
    bool *is_required; /* per storage */
    bool *for_two;     /* per storage: stands also for what is made from it, where either serves */
    /* set by the caller, all open at first */
    unsigned char *fate;                /* per storage */
    const int64_t *held_price, *reward; /* per storage, scaled ticks: for holding it at the start, beside its memory; against
                                           what it costs when it is there at some time of the interval. NULL: none */
    const int64_t *run_price;           /* per node, scaled ticks: instead of `ticks`. NULL: none */
    /* the two labellings between which the best price lies: one that goes over the room, and one that fits */
    struct mp_bound_labels {
        bool *held;  /* per storage: at the start */
        bool *there; /* per storage: held or made in the interval, as far as that matters */
    } labels[2];
    mp_bound_work work; /* what has been done with it so far */
    /* for mp_bound_interval_solve alone */
    int *stack;
    struct mp_bound_labels spare;
    bool *runs; /* per node: in the interval */
} mp_bound_interval;

typedef struct mp_bound_value {
    bool infeasible;   /* even the least to be held has no room */
    int64_t ticks;     /* the interval takes at least as much beyond first runs */
    int64_t found;     /* a solution of the relaxed problem that fits takes this; INT64_MAX: none was seen */
    int open;          /* an open storage on which the two best solutions differ, -1: none */
    int64_t scaled;    /* as `ticks`, less rewards, scaled and not rounded; may be negative */
    double share;      /* of labels[0], where labels[1] has the rest, in the mixture that just fits */
    double multiplier; /* ticks a byte, at which the bound is best; 0: memory is not short */
} mp_bound_value;

/* On MP_OK *out is released with mp_bound_interval_free (NULL is fine) before the order. MP_NOMEM. O(graph). */
mp_status mp_bound_interval_new(const mp_precedence *order, int64_t budget_bytes, mp_bound_interval **out, mp_error *err);
void mp_bound_interval_free(mp_bound_interval *x);

/* Intervals from the first run of a node on, itself not counted. O(graph). */
void mp_bound_interval_start(mp_bound_interval *x, int node);
/* ... to the first run of a node that comes after it, itself counted; -1: to the end. Once after each start. O(graph). */
void mp_bound_interval_end(mp_bound_interval *x, int node);
/* The bytes of what was certainly made before and is held if nothing is recomputed in the interval. */
int64_t mp_bound_interval_demand(const mp_bound_interval *x);
/* Some cuts. */
mp_bound_value mp_bound_interval_solve(mp_bound_interval *x);
/* The least that the interval costs at the caller's prices alone, without a price of memory, less rewards; scaled, may be
 * negative. One cut. */
int64_t mp_bound_interval_priced(mp_bound_interval *x);
int64_t mp_bound_interval_scale(const mp_bound_interval *x, int64_t ticks);
/* The least ticks that come, scaled, to at least this much; scaled >= 0. */
int64_t mp_bound_interval_ticks(const mp_bound_interval *x, int64_t scaled);

#endif
