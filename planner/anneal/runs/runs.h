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
 *
 * This header has the structure and its lists; runs_load.h builds it, runs_change.h changes it and undoes, runs_query.h asks.
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
