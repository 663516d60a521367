/* runs.h - the incremental form of the timeline: an order of runs under change, the lifetimes that follow from it, and what
 * they come to in ticks and in bytes over the budget, updated by what each change touches.
 *
 * The rules are those of memplan/timeline.h, which judges the result in the end. Runs stand at positions of a sparse
 * order (an order-maintenance list with gaps). A read is served by the latest run before it that produces the storage; an
 * instance lives from that run to its last read before the next. So any set of runs is a schedule as long as each storage is
 * produced before it is first read, and inserting or removing a run changes a few ranges of the memory profile.
 *
 * Updates have no positions. A gradient lives to the end (fuse none, forward), or to the last run that adds to it or reads what
 * its update changes (backward), as mp_updates_place puts them.
 */
#pragma once

#include "memplan/memory.h"
#include "memplan/timeline.h"
#include "planner/anneal/runs/memory_profile.h"

/* One run of a node. */
typedef struct mp_node_run {
    int node, alternative;
    int position;           /* -1: not in the order */
    bool is_on;             /* its reads and writes count */
    int64_t in_place_bytes; /* what in-place pairs spare at its position */
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
    MP_SHIFTED_LEFT, /* all runs at positions [begin, end) by one */
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
    mp_pool *pool; /* of all arrays but those that grow */
    const mp_graph *graph;
    int64_t limit_bytes; /* the budget less what is always live */
    mp_profile profile;
    int *run_at; /* per position: its run, -1: empty. The last position is that of `end` */
    mp_node_run *runs;
    int n_runs, n_spare, n_removed;
    int *spare;   /* runs that are not in the order */
    int *removed; /* those that undoing puts back */
    size_t runs_capacity, spare_capacity, removed_capacity;
    int end;                          /* the run that stands for the end of backward ... */
    int64_t end_workspace_bytes;      /* ... and the largest workspace of the updates there */
    mp_run_list *producers, *readers; /* per storage; the adders of a sum are among its readers */
    int *update_run;                  /* per storage: of a gradient, a run to which it has to live for its update; -1: none */
    int *gradients_start, *gradients; /* per storage that updates change: the gradients those updates read */
    mp_run_list *of_node;             /* per node */
    int64_t ticks;                    /* of all runs that are on */
    int n_on, n_shifted;              /* n_shifted: how many runs moved to make space since the last spreading */
    mp_change *changes;
    size_t n_changes, changes_capacity;
    bool failed; /* out of memory: changes have no effect from then on */
} mp_runs;

/* NULL is fine. */
void mp_runs_free(mp_runs *runs);
MP_OWNER(mp_runs_free, mp_runs)
/* Writes the order, without updates, into `steps`, which has n_on elements at least; returns their number. O(positions). */
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
/* Inserts a run, or removes it; its position must be what it was when it was inserted. O(n). */
void mp_run_list_insert(mp_runs *runs, mp_run_list *list, int run);
void mp_run_list_remove(const mp_runs *runs, mp_run_list *list, int run);

static inline const mp_alternative *mp_runs_alternative(const mp_runs *runs, int run)
{
    return &runs->graph->nodes[runs->runs[run].node].alternatives[runs->runs[run].alternative];
}

/* ---- from an order of steps, and the spreading of runs over the order ---- */

/* Loads an order of steps (which can run); updates in it are left out. On MP_OK release with mp_runs_free. MP_NOMEM. O(list
 * lengths + positions). */
mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const mp_step *steps, size_t n, mp_runs **out,
                      mp_error *err);
/* Spreads all runs evenly over the order, in more positions where they need them; nothing may be waiting to be undone.
 * O(positions + list lengths). */
void mp_runs_spread(mp_runs *runs);

/* ---- changes, each noted so that it can be undone ----
 *
 * A change costs O(log n) for each storage that the run reads or writes, and the ranges of the memory profile that change. */

/* Puts a new run of the node right before another run (whose neighbours shift if there is no gap) and returns it, -1 if memory
 * is short or no position is free. The run has no effect until it is turned on. */
int mp_runs_reserve(mp_runs *runs, int node, int alternative, int before_run);
void mp_runs_turn_on(mp_runs *runs, int run);
/* Undoes both: turns the run off and gives its position back. */
void mp_runs_remove(mp_runs *runs, int run);

/* mp_runs_keep makes all changes final; mp_runs_undo takes back all since the last keep. O(changes). */
void mp_runs_keep(mp_runs *runs);
void mp_runs_undo(mp_runs *runs);

/* ---- questions ----
 *
 * Each is O(log n) for each storage that the run reads, adds to or writes, but where it says otherwise. */

/* Returns the run that first reads storage s after `position` from the instance that is live there, -1 if no instance is
 * live or none reads it. */
int mp_runs_next_read(const mp_runs *runs, int s, int position);
/* True if an instance of s produced before `position` is live there or beyond. */
bool mp_runs_is_live(const mp_runs *runs, int s, int position);
/* Returns the last run before `position` that produces storage s, -1 if there is none. */
int mp_runs_latest_producer(const mp_runs *runs, int s, int position);
/* True if a run is a recomputation: not its node's first. */
bool mp_runs_is_extra(const mp_runs *runs, int run);
/* True if no run reads what this run produces. */
bool mp_runs_is_dead(const mp_runs *runs, int run);

/* True if node v may run with this alternative at a position: what it reads is produced before, and nothing that depends on
 * what it writes, adds to or updates comes out of order. The run `without_run` (-1: none) is disregarded. */
bool mp_runs_allows(const mp_runs *runs, int node, int alternative, int position, int without_run);
/* True if the order can run without a run, or with that run in another alternative. */
bool mp_runs_can_spare(const mp_runs *runs, int run);
bool mp_runs_can_change(const mp_runs *runs, int run, int alternative);

/* ---- the lifetimes of instances and sums, half-open intervals of positions; for this folder ---- */

/* Returns the end of the instance of s that producers[producer] begins: the position after its last read. O(log n). */
int mp_lifetime_end(const mp_runs *runs, int s, int producer);
/* Finds the lifetime of a sum. False if no run adds to it and none reads it. O(1). */
bool mp_lifetime_of_sum(const mp_runs *runs, int s, int *begin, int *end);

/* Add a run to the producers or readers of s, or remove it, and update the memory profile and in-place bytes.
 * O(list + positions / 64). */
void mp_lifetime_add_producer(mp_runs *runs, int s, int run);
void mp_lifetime_remove_producer(mp_runs *runs, int s, int run);
void mp_lifetime_add_reader(mp_runs *runs, int s, int run);
void mp_lifetime_remove_reader(mp_runs *runs, int s, int run);
/* Returns the bytes of all instances and sums that begin with a run. */
int64_t mp_lifetimes_begun(const mp_runs *runs, int run);
/* Computes a run's in-place bytes anew. */
void mp_lifetime_pair(mp_runs *runs, int run);
