/* runs.h - the incremental timeline: an order of runs that changes. Lifetimes, ticks and bytes over the budget are updated only
 * where a change affects them.
 *
 * The rules are those of memplan/timeline.h, which judges the final order. Runs have positions in a sparse order (an
 * order-maintenance list with gaps). A read uses the latest earlier run that produces the storage. An instance lives from that
 * run to its last read before the next producing run. Any set of runs is therefore a schedule if each storage is produced
 * before its first read. Inserting or removing a run changes a few ranges of the memory profile.
 *
 * A run on a channel other than compute is issued. A second run, its wait, marks the position that waits for it. The wait takes
 * no time. It reads every storage that the issued run uses, so that they remain live until then. Each tier has a memory
 * profile.
 *
 * Updates have no positions. A gradient lives to the end of backward (fuse none, forward). With fuse backward it lives to the
 * last run that adds to it or reads a storage that its update changes, as in mp_updates_place.
 */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/anneal/runs/memory_profile.h"

/* One run of a node. */
typedef struct mp_node_run {
    int node, alternative;
    const mp_alternative *does; /* the reads, adds and writes of the run; NULL for the end of backward */
    int mate;                   /* the wait of an issued run, or the issued run of a wait; -1: the run is neither */
    int position;               /* position in the sparse order; -1: not in it */
    bool is_on;                 /* the run takes part in the order; false while its position is only reserved */
    bool is_wait;
    int64_t ended;          /* end in ticks of an issued run, as of the last mp_runs_ticks_within */
    int step;               /* scratch of mp_runs_steps: step number of an issued run */
    int64_t waited;         /* total ticks for which compute has waited up to this run; only for issued runs and waits */
    int64_t in_place_bytes; /* bytes that in-place pairs save at the run's position */
} mp_node_run;

/* A growing list of runs, sorted by position. */
typedef struct mp_run_list {
    int *runs;
    int n;
    size_t capacity;
} mp_run_list;

typedef enum mp_change_kind {
    MP_RESERVED,
    MP_RELEASED,
    MP_TURNED_ON,
    MP_TURNED_OFF,
    MP_SHIFTED_LEFT, /* all runs at positions [begin, end) have moved by one */
    MP_SHIFTED_RIGHT
} mp_change_kind;

typedef struct mp_change {
    mp_change_kind kind;
    union {
        int run, begin;
    };
    union {
        int position, end;
    };
} mp_change;

typedef struct mp_runs {
    mp_pool *pool; /* owns all arrays except those with a capacity field */
    const mp_graph *graph;
    int64_t limit[MP_MAX_TIERS];      /* per tier: budget minus static bytes, in bytes */
    bool has_limit[MP_MAX_TIERS];     /* per tier: it has a budget. Without a budget its profile is empty. Always true for the
                                         device */
    mp_profile profile[MP_MAX_TIERS]; /* per tier of the graph */
    mp_alternative **waits;           /* per node and alternative: the storages that its wait reads; NULL: node never issued */
    int *run_at;                      /* per position: its run; -1: empty. The last position belongs to `end` */
    mp_node_run *runs;
    int n_runs, n_spare, n_removed;
    int *spare;   /* unused run numbers */
    int *removed; /* runs removed since the last mp_runs_keep; mp_runs_undo restores them */
    size_t runs_capacity, spare_capacity, removed_capacity;
    int end;                          /* the run that represents the end of backward */
    int64_t end_workspace_bytes;      /* the largest workspace of the updates that run at `end` */
    mp_run_list *producers, *readers; /* per storage: the runs that produce it; the runs that read it or add to it (a sum) */
    int *update_run; /* per gradient: the last run before its update; the gradient is live up to this run; -1: none */
    int *gradients_start, *gradients; /* per storage changed by updates: the gradients that these updates read */
    mp_run_list *of_node;             /* per node: its runs */
    int *pair_used;                   /* scratch of mp_lifetime_pair: per storage, zero between calls */
    int64_t ticks;                    /* ticks of all compute runs that are turned on */
    int n_issued;                     /* number of issued runs that are turned on */
    mp_run_list queue;                /* the issued runs that are turned on, and their waits */
    /* Fenwick tree over the positions: ticks of the compute runs that are turned on; NULL: the graph has no copies */
    int64_t *sums;
    int n_on, n_shifted; /* runs turned on; runs moved to make space since the last mp_runs_spread */
    mp_change *changes;
    size_t n_changes, changes_capacity;
    bool failed; /* memory ran out; further changes have no effect */
} mp_runs;

/* NULL is allowed. */
void mp_runs_free(mp_runs *runs);
MP_OWNER(mp_runs_free, mp_runs)
/* Writes the steps of the order, without updates, to `steps`, which has space for n_on elements. Returns the number of steps.
 * O(positions). */
size_t mp_runs_steps(const mp_runs *runs, mp_step *steps);
/* Returns the nearest run before (step -1) or after (step 1) a position; -1: none. O(gap). */
int mp_runs_neighbour(const mp_runs *runs, int position, int step);

/* Returns the index of the first run in a list that is at `position` or later. O(log n). Inline, because every move calls it
 * hundreds of times. */
static inline int mp_run_list_find(const mp_runs *runs, const mp_run_list *list, int position)
{
    int low = 0, high = list->n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (runs->runs[list->runs[middle]].position < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
/* Insert a run into a list, and remove it. The run must have the same position in both calls. O(n). */
void mp_run_list_insert(mp_runs *runs, mp_run_list *list, int run);
void mp_run_list_remove(const mp_runs *runs, mp_run_list *list, int run);

static inline const mp_alternative *mp_runs_alternative(const mp_runs *runs, int run)
{
    return runs->runs[run].does;
}
static inline int mp_runs_position(const mp_runs *runs, int run)
{
    return runs->runs[run].position;
}
/* Returns the bytes over the limits, summed over the order and all tiers. O(tiers). */
int64_t mp_runs_over(const mp_runs *runs);
/* Returns the makespan of the order, without updates (makespan.h). If it exceeds `most`, the result may be any value above
 * `most`. O(1 + issued runs * log positions). */
int64_t mp_runs_ticks_within(const mp_runs *runs, int64_t most);
static inline int64_t mp_runs_ticks(const mp_runs *runs)
{
    return mp_runs_ticks_within(runs, INT64_MAX);
}
/* Adds ticks of compute at a position. Does nothing without `sums`. O(log positions). Source: Fenwick 1994. */
static inline void mp_runs_add_ticks(mp_runs *runs, int position, int64_t ticks)
{
    for (int p = position + 1; runs->sums && p <= runs->profile->n_positions; p += p & -p) runs->sums[p] += ticks;
}
/* Returns the last position from which compute runs for at least `ticks` until `position`; -1: none. Only for graphs with
 * copies. O(log positions). */
int mp_runs_ahead(const mp_runs *runs, int position, int64_t ticks);
/* Returns the first position with at least `ticks` of compute before it; the last position if there is none. Only for graphs
 * with copies. O(log positions). */
int mp_runs_reach(const mp_runs *runs, int64_t ticks);
/* Returns the ticks of compute before a position. Only for graphs with copies. O(log positions). */
int64_t mp_runs_ticks_before(const mp_runs *runs, int position);
/* Returns the live bytes allowed in a tier while a run executes, its own workspace excluded. */
int64_t mp_runs_limit(const mp_runs *runs, int run, int tier);
/* Sets the limits of all tiers at the run's position, or removes them. */
void mp_runs_occupy(mp_runs *runs, int run, bool enters);

/* ---- conversion from steps, and even spreading of the runs ---- */

/* Loads a valid order of steps, without its updates. `tier_bytes`: budgets as in mp_request; NULL: none. On MP_OK release with
 * mp_runs_free. MP_NOMEM. O(list lengths + positions). */
mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, const mp_step *steps, size_t n,
                      mp_runs **out, mp_error *err);
/* Spreads all runs evenly over the positions. Adds positions if the order is too full. Precondition: all changes are kept.
 * O(positions + list lengths). */
void mp_runs_spread(mp_runs *runs);

/* ---- changes, recorded so that they can be undone ----
 *
 * A change costs O(log n) per storage that the run reads or writes, plus the cost of the memory profile ranges that change.
 */

/* Reserves a new run of the node right before another run, and for an issued run its wait as well. Neighbours shift if there is
 * no gap. Returns the run; -1: out of memory or no free position. The run has no effect until it is turned on. */
int mp_runs_reserve(mp_runs *runs, int node, int alternative, int before_run);
/* Like mp_runs_reserve for an issued run, but reserves its wait before the run wait_before. */
int mp_runs_issue(mp_runs *runs, int node, int alternative, int before_run, int wait_before);
/* Turns the run on, together with its wait. */
void mp_runs_turn_on(mp_runs *runs, int run);
/* Turns the run off and releases its position. An issued run and its wait are removed together. */
void mp_runs_remove(mp_runs *runs, int run);

/* mp_runs_keep makes all changes final. mp_runs_undo reverts all changes since the last mp_runs_keep. O(changes). */
void mp_runs_keep(mp_runs *runs);
void mp_runs_undo(mp_runs *runs);

/* ---- queries ----
 *
 * A query costs O(log n) per storage that the run uses, unless its comment says otherwise. */

/* Returns the next run after `position` that reads the instance of s live at `position`. Waits are ignored. Returns -1 if no
 * instance is live, or if the instance has no later reader. */
int mp_runs_next_read(const mp_runs *runs, int s, int position);
/* True if an instance of s produced before `position` is live at or after it. */
bool mp_runs_is_live(const mp_runs *runs, int s, int position);
/* Returns the last run before `position` that produces storage s; -1: none. */
int mp_runs_latest_producer(const mp_runs *runs, int s, int position);
/* True if the run is a recomputation or a copy, so that a plan can do without it: it is not its node's first run, or its node
 * is optional. */
bool mp_runs_is_extra(const mp_runs *runs, int run);
/* True if no run reads the outputs of this run. */
bool mp_runs_is_dead(const mp_runs *runs, int run);

/* True if a node may run with this alternative at a position. Its inputs must be produced earlier, and every run that depends
 * on its outputs must keep a valid order. The run `without_run` is ignored (-1: none). */
bool mp_runs_allows(const mp_runs *runs, int node, int alternative, int position, int without_run);
/* The first is true if the order remains valid without this run. The second is true if it remains valid with another
 * alternative of the run. */
bool mp_runs_can_spare(const mp_runs *runs, int run);
bool mp_runs_can_change(const mp_runs *runs, int run, int alternative);

/* True if no run turned on since the last mp_runs_keep conflicts with a copy in progress. Such a run must not use a storage
 * that the copy writes, and must not change a storage that the copy uses. */
bool mp_runs_leave_alone(const mp_runs *runs);

/* ---- lifetimes of instances and sums, as half-open intervals of positions; internal to this folder ---- */

/* Returns the end of the instance of s that the run producers[producer] produces: the position after its last read. O(log n).
 */
int mp_lifetime_end(const mp_runs *runs, int s, int producer);
/* Finds the lifetime [*begin, *end) of a sum, as positions. Returns false if no run adds to it or reads it. O(1). */
bool mp_lifetime_of_sum(const mp_runs *runs, int s, int *begin, int *end);

/* Add a run to the producers or readers of s, and remove it. They update the memory profile and the in-place bytes. O(list +
 * positions / 64). */
void mp_lifetime_add_producer(mp_runs *runs, int s, int run);
void mp_lifetime_remove_producer(mp_runs *runs, int s, int run);
void mp_lifetime_add_reader(mp_runs *runs, int s, int run);
void mp_lifetime_remove_reader(mp_runs *runs, int s, int run);
/* Returns the bytes of all instances and sums in a tier whose lifetime begins with this run. */
int64_t mp_lifetimes_begun(const mp_runs *runs, int run, int tier);
/* Recomputes the bytes that in-place pairs save at the position of a run (in_place_bytes). */
void mp_lifetime_pair(mp_runs *runs, int run);
