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

/* A schedule without updates, and its time. */
typedef struct mp_anneal_order {
    mp_step *steps;
    size_t n, capacity;
    int64_t ticks; /* INT64_MAX if the order exceeds the budget */
} mp_anneal_order;

/* Copies the steps into `to`, which keeps its allocation for later copies. MP_NOMEM. O(n). */
mp_status mp_anneal_order_copy(mp_anneal_order *to, const mp_step *steps, size_t n, int64_t ticks, mp_error *err);

typedef struct mp_anneal_walk {
    mp_search *search;
    const mp_graph *graph;     /* the graph of the search, or a part of it */
    int64_t budget_bytes;      /* the budget of `graph` */
    const int64_t *tier_bytes; /* of the other tiers, as in mp_request; NULL: none */
    bool is_apart;             /* true if `graph` is a part that this walk alone searches: it ends no other walk, `enough` is
                                * about that part, and it ends early if it stays far over the budget */
    bool ends_at_first;        /* the walk ends at its first order within the budget */
    bool leads;                /* true for the one walk that asks the search whether to stop */
    double from, end;          /* the walk's begin and end, as fractions of the time limit */
    atomic_bool *stop;
    uint64_t seed;
    bool keeps_order;             /* the first runs of forward nodes stay in list order */
    bool draws_near;              /* its moves evict what was produced shortly before (mover.h) */
    double lowers;                /* limit = smallest peak so far less this fraction of it; 0: an ordinary walk */
    double unit, hot, cold;       /* ticks; first and last temperature in that unit (`lowers`: only `hot`) */
    int64_t n_moves;              /* the number of moves over which the temperature falls from `hot` to `cold` */
    _Atomic int64_t *enough;      /* lower bound in ticks, without updates; kept up to date by the leader */
    int64_t update_ticks;         /* ticks of all updates, which `enough` leaves out */
    const mp_anneal_order *start; /* the first order, shared and read only */

    mp_anneal_order best;     /* result: the cheapest order, if below its initial ticks */
    mp_anneal_order smallest; /* while `best` is not found: the order of the smallest peak */
    int64_t smallest_bytes;   /* peak of `smallest`, less static bytes; INT64_MAX: none yet */
    mp_status status;
    mp_error err;
    long n_live; /* what this walk's thread has added to mp_alloc_live */
} mp_anneal_walk;

/* Runs all walks, each in its own thread if threads can be had. The same walks give the same orders unless the time or
 * `stop` ends them. MP_NOMEM. O(moves), and the cost of each move. */
mp_status mp_anneal_walk_all(mp_anneal_walk *walks, int n, mp_error *err);

/* ---- large local graphs (turn_around.h), window by window ----
 *
 * The list is cut into windows of some thousand nodes, at nodes before which few bytes cross. A window is a closed part
 * (order/part.h), whose plans may take the place of its nodes in the list; so windows are searched apart, several at once, and
 * their orders, one after the other, are the schedule. A move costs what it costs in a graph of a window's size, and the whole
 * search time and memory in proportion to the nodes. */

/* True if the graph of a search is local, and can be cut. */
bool mp_anneal_has_windows(const mp_graph *graph);

/* Runs one walk in each window whose keep-all exceeds the budget, starting from keep-all, and offers the joined order.
 * `unit`: ticks, the unit of temperatures. Errors as mp_search_offer. O(nodes * MP_ANNEAL_LOCAL_MOVES) moves, O(graph)
 * memory. */
mp_status mp_anneal_windows(mp_search *search, double unit, mp_error *err);
