/* anneal.h - simulated annealing: each Metropolis walk changes an order of runs by random moves at a falling temperature.
 * Several walks run at once in one annealing round.
 *
 * The energy of an order is its ticks, plus a penalty per byte over the budget in each step. If the order exceeds the budget
 * for many moves in a row, the penalty rises. Until a walk finds an order within the budget, the temperature rises with the
 * penalty, so that differences in bytes outweigh differences in ticks. Source: Kirkpatrick, Gelatt and Vecchi 1983. Before each
 * move, a walk draws the largest energy that it will accept. A move that exceeds this energy is stopped early.
 *
 * A walk towards a smaller peak replaces the budget by a limit slightly below the smallest peak so far, and uses a high
 * penalty. The limit falls with the peak, down to the budget. So the moves change only the few steps whose memory exceeds the
 * limit. If the budget were the limit, most steps would exceed it, even steps far below the peak. */
#pragma once

#include <stdatomic.h>

#include "memplan/search.h"

/* An order of steps without the optimizer's updates, and its makespan. */
typedef struct mp_anneal_order {
    mp_step *steps;
    size_t n, capacity;
    int64_t ticks; /* makespan of the order, without the optimizer's updates; INT64_MAX if the order exceeds the budget */
} mp_anneal_order;

/* Copies the steps into `to`. The memory of `to` is reused by later copies. MP_NOMEM. O(n). */
mp_status mp_anneal_order_copy(mp_anneal_order *to, const mp_step *steps, size_t n, int64_t ticks, mp_error *err);

typedef struct mp_anneal_walk {
    mp_search *search;
    const mp_graph *graph;     /* the graph on which the walk searches: the graph of the search, or a part of it */
    int64_t budget_bytes;      /* limit on all memory of `graph` in bytes, static storages included */
    const int64_t *tier_bytes; /* per tier other than the device: its budget, as in mp_request; NULL: no limits */
    /* true if `graph` is only a part of the search's graph: the end of this walk ends no other walk, `enough` refers to the
     * part, and the walk ends early if its order remains far over the budget */
    bool is_apart;
    bool ends_at_first; /* true: the walk ends as soon as it finds an order within the budget */
    bool leads;         /* true: this walk is the only one that asks the search whether to stop; if so, it ends all walks */
    double from, end;   /* the walk's begin and end, as fractions (0 to 1) of the search's time limit */
    atomic_bool *stop;
    uint64_t seed;
    bool keeps_order; /* true: the walk may not reorder the first runs of forward nodes, which stay in list order */
    /* true: moves prefer to evict storages that were produced shortly before the position at which a move evicts (draws_near in
     * mover.h) */
    bool draws_near;
    /* a fraction; the walk limits memory to (1 - lowers) times the smallest peak so far; 0: the budget is the limit */
    double lowers;
    double unit; /* number of ticks that is the unit of temperatures */
    /* hot: temperature of the first move; cold: temperature of the last move; both as multiples of `unit`. If `lowers` is not
     * 0, `cold` is not used */
    double hot, cold;
    int64_t n_moves; /* moves over which the temperature falls from `hot` to `cold` */
    /* the walk ends when its order takes at most this lower bound, in ticks without updates; the walk with `leads` raises it
     * when a better bound is proved */
    _Atomic int64_t *enough;
    int64_t update_ticks;         /* ticks of all optimizer updates, which `enough` does not include */
    const mp_anneal_order *start; /* the order from which the walk starts; several walks read the same one */

    /* result: the order within the budget with the fewest ticks; unchanged if no order has fewer ticks than `best` had on
     * entry */
    mp_anneal_order best;
    /* the order with the smallest peak so far; it is stored only until a plan within the budget (`best`) is found */
    mp_anneal_order smallest;
    int64_t smallest_bytes; /* peak of the order `smallest`, without static bytes; INT64_MAX: there is none yet */
    mp_status status;
    mp_error err;
    long n_live; /* this thread's contribution to mp_alloc_live */
} mp_anneal_walk;

/* Runs all walks, each in its own thread if threads are available. The result is deterministic unless the time limit or `stop`
 * ends a walk. MP_NOMEM. O(moves) plus the cost of each move. */
mp_status mp_anneal_walk_all(mp_anneal_walk *walks, int n, mp_error *err);

/* ---- large graphs with short lifetimes (mp_graph_is_local in turn_around.h), window by window ----
 *
 * The node list is cut into windows of some thousand nodes. Between two windows few bytes are live. A window is a closed part
 * (order/part.h), so that the plan of a window can replace the window's nodes in the list. Each window is annealed by its own
 * walk, several windows in parallel. The resulting orders are concatenated. The cost of a move depends on the size of the
 * window. Time and memory of the search are proportional to the number of nodes. */

/* True if the graph is large, its storages have short lifetimes (mp_graph_is_local), and its node list can be cut into
 * windows. */
bool mp_anneal_has_windows(const mp_graph *graph);

/* Runs one walk in each window in which keep-all exceeds the budget. Each walk starts from keep-all. Offers the concatenated
 * order. `unit`: temperatures are multiples of this number of ticks. Errors as mp_search_offer. At most nodes *
 * MP_ANNEAL_LOCAL_MOVES moves; memory in proportion to the graph. */
mp_status mp_anneal_windows(mp_search *search, double unit, mp_error *err);
