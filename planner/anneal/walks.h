/* anneal_walk.h - walks through schedules at a falling temperature, several at once. For planner/anneal/anneal.c. */
#ifndef PLANNER_ANNEAL_WALK_H
#define PLANNER_ANNEAL_WALK_H

#include <stdatomic.h>

#include "planner/search/solver.h"

/* A schedule without updates. */
typedef struct mp_walk_order {
    mp_step *steps;
    size_t n, capacity;
    int64_t ticks; /* INT64_MAX: it is not within the budget */
} mp_walk_order;

/* Copies steps; `to` keeps its room. MP_NOMEM. */
mp_status mp_walk_order_copy(mp_walk_order *to, const mp_step *steps, size_t n, int64_t ticks, mp_error *err);

typedef struct mp_walk {
    mp_search *search;
    bool leads;       /* asks the search whether to stop; one walk does */
    double from, end; /* in shares of the time limit */
    atomic_bool *stop;
    uint64_t seed;
    bool keeps_order;           /* first runs stay where they are */
    double unit, hot, cold;     /* ticks; temperatures at the beginning and the end, in units */
    int64_t n_moves;            /* between them */
    _Atomic int64_t *enough;    /* ticks, without updates, below which nothing can be: the leader keeps it up to date ... */
    int64_t update_ticks;       /* ... from what is proved, less these */
    const mp_walk_order *start; /* shared, not changed */

    mp_walk_order best;     /* found: ticks as given and lower */
    mp_walk_order smallest; /* while there is none: of those looked at the one that exceeds the budget least anywhere ... */
    int64_t smallest_bytes; /* ... and how much lives there */
    mp_status status;
    mp_error err;
    long n_live; /* of mp_alloc_live, from a thread of its own */
} mp_walk;

/* Makes all walks, each in a thread of its own where one can be had. Energy is ticks, and a price on every byte over the budget
 * in every step. The price rises while the budget is exceeded for long; as long as nothing within it has been found, the
 * temperature rises with it, so that what counts then is bytes. The same walks give the same orders unless the time or `stop`
 * ends them. MP_NOMEM. Kirkpatrick, Gelatt, Vecchi 1983. */
mp_status mp_walk_all(mp_walk *walks, int n, mp_error *err);

#endif
