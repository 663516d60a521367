/* runs.h - an order of runs under change: which node runs in which slot, how long every storage lives in consequence, and what
 * that comes to in ticks and in bytes over the budget, kept up to date by what each change touches.
 *
 * The rules are those of memplan/timeline.h, of which this is the incremental form; a result is judged there in the
 * end. Runs stand in slots of a sparse axis. A read is served by the latest run before it that makes the storage; a copy lives
 * from that run to its last read before the next. So any set of runs is a schedule as long as each storage is made before it is
 * first read, and taking a run away or putting one in is a matter of a few ranges.
 *
 * Updates of parameters have no slots. A gradient lives to the end (fuse none, forward), or to the last run that adds to it or
 * reads what its update changes (backward), as mp_updates_place places them.
 *
 * Every change is written down until mp_runs_keep, and mp_runs_undo takes all of them back.
 */
#ifndef PLANNER_RUNS_H
#define PLANNER_RUNS_H

#include "memplan/timeline.h"
#include "planner/anneal/runs/memory_profile.h"

typedef struct mp_run {
    int node, form;
    int slot;       /* -1: not in the order */
    bool is_on;     /* its reads and writes count */
    int64_t credit; /* bytes that in-place pairs spare in its slot */
} mp_run;

/* A growing list of runs in the order of their slots. */
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
    MP_SHIFTED_LEFT, /* all runs in slots [first, last] by one */
    MP_SHIFTED_RIGHT
} mp_change_kind;

typedef struct mp_change {
    mp_change_kind kind;
    union {
        int run, first;
    };
    union {
        int slot, last;
    };
} mp_change;

typedef struct mp_runs {
    const mp_graph *graph;
    int64_t limit_bytes; /* of what comes and goes, in every step */
    mp_axis axis;
    int *at_slot; /* per slot: its run, -1: empty. The last slot is that of `end` */
    mp_run *runs;
    int n_runs, n_spare, n_removed;
    int *spare;   /* runs that are not in the order */
    int *removed; /* those that undoing brings back */
    size_t runs_capacity, spare_capacity, removed_capacity;
    int end;                          /* the run that stands for the end of backward ... */
    int64_t end_workspace_bytes;      /* ... and the most workspace of the updates there */
    mp_run_list *makers, *readers;    /* per storage; of a sum the adders are among the readers */
    int *update_run;                  /* per storage: of a gradient, a run that it has to live to for its update; -1: none */
    int *gradients_start, *gradients; /* per storage that updates change: the gradients those updates read */
    mp_run_list *of_node;             /* per node */
    int64_t ticks;                    /* of all runs that are on */
    int n_on, n_shifted;              /* n_shifted: how many runs made room for others since the last spreading */
    mp_change *changes;
    size_t n_changes, changes_capacity;
    bool failed; /* memory ran out: changes have no effect from then on */
} mp_runs;

/* Loads an order of steps (which can run); updates in it are left out. On MP_OK release with mp_runs_free. MP_NOMEM. O(list
 * lengths + slots). */
mp_status mp_runs_new(const mp_graph *graph, int64_t budget_bytes, const mp_step *steps, size_t n, mp_runs **out,
                      mp_error *err);
void mp_runs_free(mp_runs *runs); /* NULL is fine */
/* Writes the order, without updates, in which `steps` has room for n_on; returns their number. */
size_t mp_runs_steps(const mp_runs *runs, mp_step *steps);
/* Spreads all runs evenly over as many slots as suit them; nothing may be waiting to be undone. O(slots + list lengths). */
void mp_runs_spread(mp_runs *runs);

/* The slot of the first read of storage s after `slot` from the copy that lives there, -1: none lives, or none reads it. */
int mp_runs_next_read(const mp_runs *runs, int s, int slot);
/* Whether a copy of s made before `slot` lives there or beyond. */
bool mp_runs_lives(const mp_runs *runs, int s, int slot);
/* Whether node v may have a run with this form in a slot: what it reads is made before, and of what it makes, contributes to or
 * updates depend on nothing comes out of order. The run itself, if it is in the order, is thought away. */
bool mp_runs_allows(const mp_runs *runs, int node, int form, int slot, int without_run);

/* Whether the order can do without a run, or with that run in another form. */
bool mp_runs_can_spare(const mp_runs *runs, int run);
bool mp_runs_can_change(const mp_runs *runs, int run, int form);

/* A run of the node in an empty slot before that of another run, with none between (room is made if there is none), without
 * effect until it is turned on. -1: out of memory. */
int mp_runs_reserve(mp_runs *runs, int node, int form, int before_run);
void mp_runs_turn_on(mp_runs *runs, int run);
/* The opposite of both. */
void mp_runs_remove(mp_runs *runs, int run);

void mp_runs_keep(mp_runs *runs);
void mp_runs_undo(mp_runs *runs);

#endif
