/* runs.h - the incremental timeline: an order of runs to which a search makes small changes. After each change it updates only
 * the affected lifetimes, ticks and bytes over the budget.
 *
 * It follows the rules of memplan/timeline.h, which judges the final order. Runs have positions in a sparse order (an
 * order-maintenance list with gaps). A read uses the latest earlier run that produces the storage. An instance lives from that
 * run to its last read before the next producing run. Any set of runs is therefore a schedule if each storage is produced
 * before its first read. Inserting or removing a run changes a few ranges of the memory profile.
 *
 * A run on a channel other than compute is issued. A second run, called its wait, marks the position at which compute waits for
 * the issued run. The wait takes no ticks. It reads every storage that the issued run uses, so that they remain live until
 * then. The workspace of the issued run is live until then, too. Each tier has a memory profile.
 *
 * Updates have no positions. If updates are not fused into backward (mp_fuse), a gradient lives to the end of backward. If they
 * are, it lives to the last run that adds to it or reads a storage that its update overwrites, as in mp_updates_place. */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/anneal/runs/memory_profile.h"

/* One run of a node. */
typedef struct mp_node_run {
    int node, alternative;
    /* the alternative that this run executes, with its reads, adds and writes; NULL for the end of backward */
    const mp_alternative *does;
    int mate;     /* for an issued run its wait, for a wait its issued run; -1: the run is neither */
    int position; /* position in the sparse order; -1: the run is not in the order */
    bool is_on;   /* false while a position is only reserved for the run, so that the run is not yet part of the order */
    bool is_wait;
    /* for an issued run: the time in ticks at which it ends, as computed by the last mp_runs_ticks_within */
    int64_t ended;
    int step;               /* scratch of mp_runs_steps: index of the step to which an issued run is converted */
    int64_t waited;         /* for issued runs and waits: total ticks for which compute has waited until this run begins */
    int64_t in_place_bytes; /* bytes saved at this run because outputs take over the memory of inputs (in-place pairs) */
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
    MP_SHIFTED_LEFT, /* MP_SHIFTED_LEFT, MP_SHIFTED_RIGHT: all runs at positions [begin, end) were moved by one position */
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
    int64_t limit[MP_MAX_TIERS]; /* per tier: budget minus static bytes */
    /* per tier: the tier has a budget. The device always has one. The profile of a tier without a budget is empty */
    bool has_limit[MP_MAX_TIERS];
    mp_profile profile[MP_MAX_TIERS]; /* per tier of the graph */
    /* per node and alternative: the storages that the wait of an issued run reads; NULL: the node is never issued */
    mp_alternative **waits;
    /* per position: the run at this position; -1: empty. The last position belongs to the run `end` */
    int *run_at;
    mp_node_run *runs;
    int n_runs, n_spare, n_removed;
    int *spare;   /* unused run numbers */
    int *removed; /* the runs removed since the last mp_runs_keep, stored so that mp_runs_undo can restore them */
    size_t runs_capacity, spare_capacity, removed_capacity;
    int end;                     /* index of the run that represents the end of backward */
    int64_t end_workspace_bytes; /* workspace in bytes: the largest of all updates that run after backward */
    /* per storage. producers: list of the runs that produce it. readers: list of the runs that read it or add to it (a sum) */
    mp_run_list *producers, *readers;
    int *update_run; /* per gradient: the last run before its update, up to which the gradient is live; -1: none */
    int *gradients_start, *gradients; /* per storage that updates overwrite: the gradients that these updates read */
    mp_run_list *of_node;             /* per node: its runs */
    int *pair_used;                   /* scratch of mp_lifetime_pair, per storage; all entries are zero between calls */
    int64_t ticks;                    /* sum of the ticks of all compute runs in the order */
    int n_issued;                     /* number of issued runs in the order */
    mp_run_list queue;                /* the issued runs of the order and their waits, by position */
    /* Fenwick tree over the positions with the ticks of the order's compute runs; NULL: the graph has no copies */
    int64_t *sums;
    /* n_on: number of runs in the order; n_shifted: number of runs shifted to make space since the last mp_runs_spread */
    int n_on, n_shifted;
    mp_change *changes;
    size_t n_changes, changes_capacity;
    bool failed; /* true: memory ran out, and further changes of the order have no effect */
} mp_runs;

/* NULL is allowed. */
void mp_runs_free(mp_runs *runs);
MP_OWNER(mp_runs_free, mp_runs)
/* Writes the steps of the order, without updates, to `steps`, which must have space for n_on elements. Returns the number of
 * steps. O(positions). */
size_t mp_runs_steps(const mp_runs *runs, mp_step *steps);
/* Returns the nearest run before a position (step -1) or after it (step 1); -1: none. O(number of empty positions passed). */
int mp_runs_neighbour(const mp_runs *runs, int position, int step);

/* Returns the index of the first run in a list whose position is at least `position`. O(log n). Inline, because every move
 * calls it hundreds of times. */
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
/* mp_run_list_insert inserts a run into a sorted list, mp_run_list_remove removes it. The run must have the same position in
 * both calls. O(n). */
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
/* True if a run is on a channel other than compute, so that it has a wait. False for waits. */
static inline bool mp_runs_is_issued(const mp_runs *runs, int run)
{
    return runs->runs[run].does->channel > MP_CHANNEL_SECOND_STREAM;
}
/* Returns the bytes over the limits, summed over all positions of the order and over all tiers. O(tiers). */
int64_t mp_runs_over(const mp_runs *runs);
/* Returns the makespan of the order, without updates (makespan.h). If it exceeds `most`, the result may be any value above
 * `most`. O(1 + issued runs * log positions). */
int64_t mp_runs_ticks_within(const mp_runs *runs, int64_t most);
static inline int64_t mp_runs_ticks(const mp_runs *runs)
{
    return mp_runs_ticks_within(runs, INT64_MAX);
}
/* Adds ticks of compute at a position to the Fenwick tree `sums`. Does nothing if the graph has no copies. O(log positions).
 * Source: Fenwick 1994. */
static inline void mp_runs_add_ticks(mp_runs *runs, int position, int64_t ticks)
{
    for (int p = position + 1; runs->sums && p <= runs->profile->n_positions; p += p & -p) runs->sums[p] += ticks;
}
/* Returns the last position p such that the compute runs from p to `position` take at least `ticks`; -1: none. Only for graphs
 * with copies. O(log positions). */
int mp_runs_ahead(const mp_runs *runs, int position, int64_t ticks);
/* Returns the first position before which compute takes at least `ticks`; if there is none, the last position. Only for graphs
 * with copies. O(log positions). */
int mp_runs_reach(const mp_runs *runs, int64_t ticks);
/* Returns the ticks that compute takes before a position. Only for graphs with copies. O(log positions). */
int64_t mp_runs_ticks_before(const mp_runs *runs, int position);
/* Returns the bytes of a tier that other storages may use while a run executes: the tier's limit, less the run's workspace on
 * the device. The workspace of an issued run is not subtracted, because it counts as live bytes (mp_lifetime_workspace). */
int64_t mp_runs_limit(const mp_runs *runs, int run, int tier);
/* With `enters`, gives the position of the run its limit in all tiers. Without it, marks the position as empty in all tiers. */
void mp_runs_occupy(mp_runs *runs, int run, bool enters);

/* ---- loading steps as runs, and spreading the runs evenly over the positions ---- */

/* Loads a valid order of steps, without its updates. `tier_bytes`: budgets as in mp_request; NULL: none. On MP_OK release with
 * mp_runs_free. MP_NOMEM. O(list lengths + positions). */
mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, const mp_step *steps, size_t n,
                      mp_runs **out, mp_error *err);
/* Spreads all runs evenly over the positions, and adds positions if few are empty. Precondition: mp_runs_keep was called after
 * the last change. O(positions + list lengths). */
void mp_runs_spread(mp_runs *runs);

/* ---- changes, recorded so that they can be undone ----
 *
 * A change costs O(log n) per storage that the run reads or writes. In addition it updates the ranges of the memory profile
 * that change.
 */

/* Reserves a position just before another run for a new run of a node. Does the same for its wait if the run is issued.
 * Neighbours shift if there is no empty position. Returns the run; -1: out of memory or no free position. The run has no effect
 * until mp_runs_turn_on. */
int mp_runs_reserve(mp_runs *runs, int node, int alternative, int before_run);
/* Like mp_runs_reserve for an issued run, but reserves its wait before the run wait_before. */
int mp_runs_issue(mp_runs *runs, int node, int alternative, int before_run, int wait_before);
/* Makes a reserved run part of the order, together with its wait. */
void mp_runs_turn_on(mp_runs *runs, int run);
/* Removes a run from the order and releases its position. The wait of an issued run is removed with it. */
void mp_runs_remove(mp_runs *runs, int run);

/* mp_runs_keep makes all changes so far final. mp_runs_undo reverts all changes since the last mp_runs_keep. O(changes). */
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
/* True if the order may be valid without the run, because it is a recomputation or a copy: it is not its node's first run, or
 * its node is optional. */
bool mp_runs_is_extra(const mp_runs *runs, int run);
/* True if the outputs of this run are dead: no run reads them. */
bool mp_runs_is_dead(const mp_runs *runs, int run);

/* True if a node may run with this alternative at a position. Its inputs must be produced earlier, and every run that depends
 * on its outputs must stay valid. The check is made as if the run `without_run` (-1: none) were removed. */
bool mp_runs_allows(const mp_runs *runs, int node, int alternative, int position, int without_run);
/* mp_runs_can_spare: true if the order remains valid without this run. mp_runs_can_change: true if it remains valid when the
 * run executes another alternative. */
bool mp_runs_can_spare(const mp_runs *runs, int run);
bool mp_runs_can_change(const mp_runs *runs, int run, int alternative);

/* True if no run inserted since the last mp_runs_keep (mp_runs_turn_on) conflicts with a copy in progress. A run conflicts if
 * it uses a storage that the copy writes, or changes a storage that the copy reads. */
bool mp_runs_leave_alone(const mp_runs *runs);

/* ---- lifetimes of instances and sums, as half-open intervals of positions; internal to this folder ---- */

/* Returns the end of an instance of s: the position after its last read. The instance is produced by the run
 * producers[producer]. O(log n). */
int mp_lifetime_end(const mp_runs *runs, int s, int producer);
/* Finds the lifetime [*begin, *end) of a sum, as positions. Returns false if no run adds to it or reads it. O(1). */
bool mp_lifetime_of_sum(const mp_runs *runs, int s, int *begin, int *end);

/* These four functions add a run to the producers or readers of s, or remove it. They also update the memory profile and the
 * bytes saved by in-place pairs. O(list + positions / 64). */
void mp_lifetime_add_producer(mp_runs *runs, int s, int run);
void mp_lifetime_remove_producer(mp_runs *runs, int s, int run);
void mp_lifetime_add_reader(mp_runs *runs, int s, int run);
void mp_lifetime_remove_reader(mp_runs *runs, int s, int run);
/* Returns the bytes of all instances and sums in a tier, and of an issued run's workspace, that become live with this run. */
int64_t mp_lifetimes_begun(const mp_runs *runs, int run, int tier);
/* Adds the workspace of an issued run to the memory profile (sign 1), or subtracts it (-1): from the position of the run to the
 * position of its wait. `run` is either of the two. Does nothing unless the order contains both. */
void mp_lifetime_workspace(mp_runs *runs, int run, int sign);
/* Recomputes the bytes that in-place pairs save at the position of a run (in_place_bytes). */
void mp_lifetime_pair(mp_runs *runs, int run);
