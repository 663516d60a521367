/* runs.h - the incremental form of the timeline: an order of runs that changes, and the lifetimes, ticks and bytes over the
 * budget that follow from it, updated where a change touches them.
 *
 * The rules are those of memplan/timeline.h, which judges the final order. Runs stand at positions of a sparse order (an
 * order-maintenance list with gaps). A read is served by the latest run before it that produces the storage; an instance lives
 * from that run to its last read before the next such run. So any set of runs is a schedule as long as each storage is produced
 * before it is first read, and inserting or removing a run changes a few ranges of the memory profile.
 *
 * A run on another channel than compute is issued: a second run, its wait, stands where a step waits for it. The wait takes no
 * time and reads all that the issued run uses, so that this is live until then. Each tier has a memory profile.
 *
 * Updates have no positions. A gradient lives to the end (fuse none, forward), or to the last run that adds to it or reads what
 * its update changes (fuse backward), as in mp_updates_place.
 */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/anneal/runs/memory_profile.h"

/* One run of a node. */
typedef struct mp_node_run {
    int node, alternative;
    const mp_alternative *does; /* what it reads, adds to and writes; NULL at the end of backward */
    int mate;                   /* the wait of an issued run, the issued run of a wait, -1: neither */
    int position;               /* position in the order, -1 if not in it */
    bool is_on;                 /* true if its reads and writes count */
    bool is_wait;
    int64_t ended;          /* of an issued run: when it ended at the last mp_runs_ticks */
    int step;               /* of an issued run: work of mp_runs_steps */
    int64_t waited;         /* of it and its wait: for how long compute had waited there */
    int64_t in_place_bytes; /* bytes saved at its position by in-place pairs */
} mp_node_run;

/* A growing list of runs by ascending position. */
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
    mp_pool *pool; /* owns all arrays except those that grow */
    const mp_graph *graph;
    int64_t limit[MP_MAX_TIERS];      /* per tier: budget less what is always live there */
    bool has_limit[MP_MAX_TIERS];     /* per tier: there is a budget; else its profile stays empty. Of the device always */
    mp_profile profile[MP_MAX_TIERS]; /* per tier of the graph */
    mp_alternative **waits;           /* per node: what the waits of its alternatives do; NULL: none is issued */
    int *run_at;                      /* per position: its run, -1 if empty; `end` has the last position */
    mp_node_run *runs;
    int n_runs, n_spare, n_removed;
    int *spare;   /* numbers of runs that are not in use */
    int *removed; /* runs removed since the last keep, which undo puts back */
    size_t runs_capacity, spare_capacity, removed_capacity;
    int end;                          /* a run that stands for the end of backward */
    int64_t end_workspace_bytes;      /* the largest workspace of the updates at `end` */
    mp_run_list *producers, *readers; /* per storage; a node that adds to a sum counts as a reader */
    int *update_run;                  /* per gradient: a run up to which its update needs it live; -1: none */
    int *gradients_start, *gradients; /* per storage that updates change: the gradients which those updates read */
    mp_run_list *of_node;             /* per node: its runs */
    int *pair_used;                   /* work of mp_lifetime_pair: zero per storage */
    int64_t ticks;                    /* the sum over all runs on compute that are on */
    int n_issued;                     /* how many issued runs are on */
    mp_run_list queue;                /* the issued runs that are on, and their waits */
    int64_t
        *sums; /* a Fenwick tree over the positions: ticks of the runs on compute that are on; NULL: nothing can be issued */
    int n_on, n_shifted; /* n_shifted: how many runs have moved to make space since the last mp_runs_spread */
    mp_change *changes;
    size_t n_changes, changes_capacity;
    bool failed; /* true if memory ran out: changes have no effect any more */
} mp_runs;

/* NULL is allowed. */
void mp_runs_free(mp_runs *runs);
MP_OWNER(mp_runs_free, mp_runs)
/* Writes the order, without updates, into `steps` (space for n_on elements), and returns the number of steps. O(positions). */
size_t mp_runs_steps(const mp_runs *runs, mp_step *steps);
/* Returns the run nearest before (step -1) or after (1) a position, -1 if there is none. O(gap). */
int mp_runs_neighbour(const mp_runs *runs, int position, int step);

/* Returns the index of the first run of a list at `position` or later. O(log n). Inline: every move asks it hundreds of times.
 */
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
/* Inserts a run into a list, or removes it. The run's position must be the same at both calls. O(n). */
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
/* Returns the bytes over the limits of all tiers, added up over the order. O(tiers). */
int64_t mp_runs_over(const mp_runs *runs);
/* Returns the makespan of the order, without updates (makespan.h); or if it is more than `most`, something that is too. O(1 +
 * issued runs * log positions). */
int64_t mp_runs_ticks_within(const mp_runs *runs, int64_t most);
static inline int64_t mp_runs_ticks(const mp_runs *runs)
{
    return mp_runs_ticks_within(runs, INT64_MAX);
}
/* Adds to the ticks of compute at a position; nothing without `sums`. O(log positions). Source: Fenwick 1994. */
static inline void mp_runs_add_ticks(mp_runs *runs, int position, int64_t ticks)
{
    for (int p = position + 1; runs->sums && p <= runs->profile->n_positions; p += p & -p) runs->sums[p] += ticks;
}
/* Returns the last position before `position` that compute reaches at least `ticks` earlier; -1 if there is none. Only of
 * graphs with copies. O(log positions). */
int mp_runs_ahead(const mp_runs *runs, int position, int64_t ticks);
/* Returns the first position before which compute runs for at least `ticks`, the last position if there is none. Only of graphs
 * with copies. O(log positions). */
int mp_runs_reach(const mp_runs *runs, int64_t ticks);
/* Returns the ticks of compute before a position. Only of graphs with copies. O(log positions). */
int64_t mp_runs_ticks_before(const mp_runs *runs, int position);
/* Returns the most that may be live at a run, of its tier, with its workspace left out. */
int64_t mp_runs_limit(const mp_runs *runs, int run, int tier);
/* Enters a run's limits into all profiles at its position, or takes them out. */
void mp_runs_occupy(mp_runs *runs, int run, bool enters);

/* ---- from an order of steps, and the spreading of runs over the order ---- */

/* Loads a valid order of steps, without its updates. `tier_bytes`: budgets as in mp_request; NULL: none. On MP_OK release with
 * mp_runs_free. MP_NOMEM. O(list lengths + positions). */
mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const int64_t *tier_bytes, const mp_step *steps, size_t n,
                      mp_runs **out, mp_error *err);
/* Spreads all runs evenly over the order, which grows if it is too full. Precondition: no change is waiting to be undone.
 * O(positions + list lengths). */
void mp_runs_spread(mp_runs *runs);

/* ---- changes, each noted so that it can be undone ----
 *
 * A change costs O(log n) for each storage that the run reads or writes, and the ranges of the memory profile that change. */

/* Puts a new run of the node right before another run (whose neighbours shift if there is no gap), and if it is issued its wait
 * there too. Returns the run, -1 if memory is short or no position is free. It has no effect until it is turned on. */
int mp_runs_reserve(mp_runs *runs, int node, int alternative, int before_run);
/* Likewise, with the wait before another run. */
int mp_runs_issue(mp_runs *runs, int node, int alternative, int before_run, int wait_before);
/* Turns the run on, and its wait with it. */
void mp_runs_turn_on(mp_runs *runs, int run);
/* Turns the run off and gives its position back; with an issued run goes its wait, and conversely. */
void mp_runs_remove(mp_runs *runs, int run);

/* mp_runs_keep makes all changes final; mp_runs_undo takes back all changes since the last keep. O(changes). */
void mp_runs_keep(mp_runs *runs);
void mp_runs_undo(mp_runs *runs);

/* ---- questions ----
 *
 * Each costs O(log n) per storage that the run reads, adds to or writes, unless its comment says otherwise.
 */

/* Returns the run that reads the instance of s live at `position` first after it, waits left out; -1 if no instance is live, or
 * it has no later reader. */
int mp_runs_next_read(const mp_runs *runs, int s, int position);
/* True if an instance of s produced before `position` is live there or beyond. */
bool mp_runs_is_live(const mp_runs *runs, int s, int position);
/* Returns the last run before `position` that produces storage s, -1 if there is none. */
int mp_runs_latest_producer(const mp_runs *runs, int s, int position);
/* True if the run is not its node's first, or the node is optional: a recomputation or a copy, which a plan can do without. */
bool mp_runs_is_extra(const mp_runs *runs, int run);
/* True if no run reads what this run produces. */
bool mp_runs_is_dead(const mp_runs *runs, int run);

/* True if a node may run with this alternative at a position: its inputs are produced before it, and every run that depends
 * on what it writes, adds to or updates still comes in a valid order. The run `without_run` (-1: none) is disregarded. */
bool mp_runs_allows(const mp_runs *runs, int node, int alternative, int position, int without_run);
/* True if the order stays valid without this run, or with the run in another alternative. */
bool mp_runs_can_spare(const mp_runs *runs, int run);
bool mp_runs_can_change(const mp_runs *runs, int run, int alternative);

/* True if the runs that were turned on since the last keep use nothing that a copy is still writing, and change nothing that it
 * uses. */
bool mp_runs_leave_alone(const mp_runs *runs);

/* ---- the lifetimes of instances and sums, half-open intervals of positions; for this folder ---- */

/* Returns the end of the instance of s that producers[producer] begins: the position after its last read. O(log n). */
int mp_lifetime_end(const mp_runs *runs, int s, int producer);
/* Finds the lifetime of a sum. Returns false if no run adds to it or reads it. O(1). */
bool mp_lifetime_of_sum(const mp_runs *runs, int s, int *begin, int *end);

/* Each adds a run to the producers or readers of s, or removes it, and updates the memory profile and in-place bytes. O(list
 * + positions / 64). */
void mp_lifetime_add_producer(mp_runs *runs, int s, int run);
void mp_lifetime_remove_producer(mp_runs *runs, int s, int run);
void mp_lifetime_add_reader(mp_runs *runs, int s, int run);
void mp_lifetime_remove_reader(mp_runs *runs, int s, int run);
/* Returns the bytes of all instances and sums of a tier whose lifetimes begin with this run. */
int64_t mp_lifetimes_begun(const mp_runs *runs, int run, int tier);
/* Recomputes the bytes that in-place pairs save at a run. */
void mp_lifetime_pair(mp_runs *runs, int run);
