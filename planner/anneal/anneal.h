/* anneal.h - simulated annealing: each Metropolis walk changes an order of runs by random moves at a falling temperature.
 * Several walks run at once in one annealing round.
 *
 * The energy of an order is its ticks, plus a penalty per byte over the budget in each step. The penalty rises while the order
 * exceeds the budget for long. Until a walk finds an order within the budget, the temperature rises with the penalty, so that
 * bytes outweigh ticks. Source: Kirkpatrick, Gelatt and Vecchi 1983. A walk draws the largest acceptable energy before it
 * makes a move, so that a move above it ends early.
 *
 * A walk towards a smaller peak uses a limit slightly below the smallest peak so far, and a high penalty. The limit falls with
 * the peak, down to the budget. So the moves address only the few steps over the limit. With the budget as the limit, most
 * steps would exceed it, including many far below the peak. */
#pragma once

#include <stdatomic.h>

#include "memplan/search.h"

/* An order of steps without the optimizer's updates, and its time. */
typedef struct mp_anneal_order {
    mp_step *steps;
    size_t n, capacity;
    int64_t ticks; /* makespan without updates; INT64_MAX if the order exceeds the budget */
} mp_anneal_order;

/* Copies the steps into `to`, which keeps its allocation for later copies. MP_NOMEM. O(n). */
mp_status mp_anneal_order_copy(mp_anneal_order *to, const mp_step *steps, size_t n, int64_t ticks, mp_error *err);

typedef struct mp_anneal_walk {
    mp_search *search;
    const mp_graph *graph;     /* the graph of the search, or a part of it */
    int64_t budget_bytes;      /* limit of all memory of `graph`, static storages included */
    const int64_t *tier_bytes; /* per tier other than the device: its budget, as in mp_request; NULL: no limits */
    /* true if `graph` is a part that this walk searches alone: it ends no other walk, `enough` refers to the part, and the walk
     * ends early if it remains far over the budget */
    bool is_apart;
    bool ends_at_first; /* the walk ends when it finds an order within the budget */
    bool leads;         /* true for the one walk that polls the search for a stop */
    double from, end;   /* begin and end of the walk, as fractions (0 to 1) of the search's time limit */
    atomic_bool *stop;
    uint64_t seed;
    bool keeps_order; /* the first runs of forward nodes stay in list order */
    bool draws_near;  /* moves prefer to evict storages produced shortly before the drawn position (mover.h) */
    double lowers; /* fraction: memory is limited to the smallest peak so far less this fraction; 0: the limit is the budget */
    double unit;   /* temperatures are multiples of this number of ticks */
    double hot, cold; /* first and last temperature, as multiples of `unit`; a walk with `lowers` uses `hot` only */
    int64_t n_moves;  /* moves over which the temperature falls from `hot` to `cold` */
    /* in ticks, without updates: the walk ends when it reaches this lower bound; the leading walk updates it */
    _Atomic int64_t *enough;
    int64_t update_ticks;         /* ticks of all updates, which are not part of `enough` */
    const mp_anneal_order *start; /* the order from which the walk starts; shared by all walks and read only */

    mp_anneal_order best;     /* result: the cheapest order, if it improves on the initial `best` */
    mp_anneal_order smallest; /* until `best` is found: the order with the smallest peak */
    int64_t smallest_bytes;   /* peak of `smallest`, without static bytes; INT64_MAX: none yet */
    mp_status status;
    mp_error err;
    long n_live; /* this thread's contribution to mp_alloc_live */
} mp_anneal_walk;

/* Runs all walks, each in its own thread if threads are available. The result is deterministic unless the time limit or `stop`
 * ends a walk. MP_NOMEM. O(moves) plus the cost of each move. */
mp_status mp_anneal_walk_all(mp_anneal_walk *walks, int n, mp_error *err);

/* ---- large graphs with short lifetimes (mp_graph_is_local in turn_around.h), window by window ----
 *
 * The list is cut into windows of some thousand nodes, at positions that few bytes cross. A window is a closed part
 * (order/part.h), so that the plan of a window can replace the window's nodes in the list. Walks search the windows
 * independently, several at once, and their orders are concatenated. The cost of a move depends on the size of the window.
 * Time and memory of the search are proportional to the number of nodes. */

/* True if the graph is large, has short lifetimes (mp_graph_is_local), and can be cut into windows. */
bool mp_anneal_has_windows(const mp_graph *graph);

/* Runs one walk in each window in which keep-all exceeds the budget. Each walk starts from keep-all. Offers the concatenated
 * order. `unit`: temperatures are multiples of this number of ticks. Errors as mp_search_offer. O(nodes *
 * MP_ANNEAL_LOCAL_MOVES) moves, O(graph) memory. */
mp_status mp_anneal_windows(mp_search *search, double unit, mp_error *err);
