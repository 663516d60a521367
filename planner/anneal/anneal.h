/* anneal.h - walks through orders of runs at a falling temperature, several at once: the Metropolis search of one annealing
 * round.
 *
 * Energy is ticks, and a penalty for every byte over the budget in every step, which rises while the budget is exceeded for
 * long; as long as no plan has been found, the temperature rises with it, so that what counts then is bytes. Source:
 * Kirkpatrick, Gelatt and Vecchi 1983; the acceptance threshold is drawn before the move, so that a move that exceeds it is
 * given up early.
 *
 * A walk towards a smaller peak has, in place of the budget, a limit a little below the smallest peak so far, which falls with
 * it down to the budget, and a high penalty: the few steps over that limit are what the next moves are for. A walk with the
 * budget itself sees bytes over it in most steps, however far below the peak they are.
 */
#pragma once

#include <stdatomic.h>

#include "memplan/search.h"

/* A schedule without updates. */
typedef struct mp_anneal_order {
    mp_step *steps;
    size_t n, capacity;
    int64_t ticks; /* INT64_MAX: it is not within the budget */
} mp_anneal_order;

/* Copies steps; `to` keeps its memory. MP_NOMEM. O(n). */
mp_status mp_anneal_order_copy(mp_anneal_order *to, const mp_step *steps, size_t n, int64_t ticks, mp_error *err);

typedef struct mp_anneal_walk {
    mp_search *search;
    const mp_graph *graph; /* the search's, or a part of it ... */
    int64_t budget_bytes;  /* ... and its budget */
    bool is_apart;         /* walks through a part of its own: it ends no other walk, and `enough` is about that part; it
                              ends early if it stays far over the budget */
    bool ends_at_first;    /* it ends when it is within the budget */
    bool leads;            /* asks the search whether to stop; one walk does */
    double from, end;      /* in shares of the time limit */
    atomic_bool *stop;
    uint64_t seed;
    bool keeps_order;             /* first runs stay in list order */
    bool draws_near;              /* its moves evict what was produced shortly before (mover.h) */
    double lowers;                /* towards a smaller peak: by how much the limit is below it, a share; 0: an ordinary walk */
    double unit, hot, cold;       /* ticks; temperatures at the beginning and the end, in units (`hot` if it lowers) */
    int64_t n_moves;              /* between them */
    _Atomic int64_t *enough;      /* no order takes fewer ticks, updates left out: the leader keeps it up to date ... */
    int64_t update_ticks;         /* ... from what is proved, less these */
    const mp_anneal_order *start; /* shared, not changed */

    mp_anneal_order best;     /* found: ticks as given and lower */
    mp_anneal_order smallest; /* while there is none: of those looked at, the smallest ... */
    int64_t smallest_bytes;   /* ... with so much at its peak, less what is always live; INT64_MAX: none */
    mp_status status;
    mp_error err;
    long n_live; /* what it has added to mp_alloc_live, from a thread of its own */
} mp_anneal_walk;

/* Makes all walks, each in a thread of its own where one can be had. The same walks give the same orders unless the time or
 * `stop` ends them. MP_NOMEM. O(moves), each as far as it reaches. */
mp_status mp_anneal_walk_all(mp_anneal_walk *walks, int n, mp_error *err);

/* ---- large local graphs (turn_around.h), window by window ----
 *
 * The list is cut into windows of some thousand nodes, at nodes before which few bytes cross. A window is a closed part
 * (order/part.h), whose plans may take the place of its nodes in the list; so windows are searched apart, several at once, and
 * their orders, one after the other, are the schedule. A move costs what it costs in a graph of a window's size, and the whole
 * search time and memory in proportion to the nodes. */

/* True if the graph of a search is local, and can be cut. */
bool mp_anneal_has_windows(const mp_graph *graph);

/* One walk through each window in which keep-all is over the budget, from keep-all on, and one offer of the whole. `unit`: that
 * of all temperatures, in ticks. Errors as mp_search_offer. O(nodes * MP_ANNEAL_LOCAL_MOVES) moves, O(graph) memory. */
mp_status mp_anneal_windows(mp_search *search, double unit, mp_error *err);
