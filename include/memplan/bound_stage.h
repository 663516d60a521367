/* bound_stage.h - the stages of the bound: their names, which of them are switched on, and what each has proved.
 *
 * A stage raises the bound that the stages before it have proved. docs/bound.md says what each one is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mp_bound_stage {
    MP_BOUND_NODES,    /* every node once, in its fastest alternative: the base of all others, never off */
    MP_BOUND_FLOOR,    /* the minimum memory */
    MP_BOUND_INTERVAL, /* one interval, memory relaxed by a multiplier */
    MP_BOUND_DISJOINT, /* disjoint intervals, whose ticks add up */
    MP_BOUND_COUPLE,   /* the intervals of a chain coupled by multipliers */
    MP_BOUND_OVERLAP,  /* overlapping intervals, whose multipliers come from linear programmes */
    MP_BOUND_TREE,     /* branch and bound on what is live at the boundaries of these intervals */
    MP_BOUND_SETTLE,   /* which of two nodes runs first, settled by a target */
    MP_BOUND_DEMAND,   /* live-in sets, computed backward from the end of the step */
    MP_BOUND_SEARCH,   /* a searcher that has visited every schedule; not part of mp_bound_within */
    MP_BOUND_N_STAGES
} mp_bound_stage;

/* Returns the name of a stage: "interval". */
const char *mp_bound_stage_name(mp_bound_stage stage);
/* Finds the stage of this name that can be switched off; returns false if there is none. */
bool mp_bound_stage_find(const char *name, mp_bound_stage *stage);

/* The work of a stage, in units that depend on the input alone. */
typedef struct mp_bound_work {
    int64_t n_cuts;   /* minimum cuts */
    int64_t n_pivots; /* iterations * rows of linear programmes */
    int64_t n_states; /* states of the dynamic programme that were looked at */
} mp_bound_work;

void mp_bound_work_add(mp_bound_work *to, const mp_bound_work *work);

typedef struct mp_bound_result {
    int64_t ticks;      /* the best that the stage has proved, beyond one run of every node; -1: nothing */
    bool is_infeasible; /* the stage proved that no plan fits */
    mp_bound_work work;
} mp_bound_result;

/* A tensor that the deciding interval's cheapest choice does not keep live at the start of the interval. */
typedef struct mp_bound_eviction {
    int storage;
    int64_t bytes;  /* freed at the start of the interval */
    int64_t ticks;  /* of one run of its producer in the interval */
    bool is_partly; /* the relaxed problem keeps a fraction of it live */
} mp_bound_eviction;

/* The parts of a bound. The deciding interval begins with the first run of mp_bound.from. */
typedef struct mp_bound_report {
    mp_bound_result stages[MP_BOUND_N_STAGES];
    int64_t least_ticks;   /* one run of every node, in its fastest alternative */
    int64_t live_in_bytes; /* bytes live at the start of the deciding interval if nothing is recomputed later */
    int64_t free_bytes;    /* what the budget leaves for these bytes */
    int64_t ticks;         /* what this interval alone proves beyond first runs */
    size_t n;              /* number of evictions, which are sorted by descending bytes */
    mp_bound_eviction *evictions;
} mp_bound_report;

/* Makes a report in which no stage has proved anything. */
void mp_bound_report_init(mp_bound_report *report);
void mp_bound_report_clear(mp_bound_report *report);
/* Merges two reports: of every stage the better result and the work of both; and takes the deciding interval of `from`
 * if `takes_interval`. */
void mp_bound_report_merge(mp_bound_report *to, mp_bound_report *from, bool takes_interval);

typedef struct mp_bound_options {
    bool any_order; /* false: only plans that first run forward nodes, and run loss and backward nodes, in list order */
    int effort;     /* 0: one interval. k > 0: chains of intervals between 16 k points, split by up to 4 of 4 k nodes
                     * each and coupled by 32 k rounds of multipliers, then linear programmes of some 2500 k rows (at
                     * most 20000) over overlapping intervals; all this for k = 1, 2, 4, .. up to it. Of several rounds
                     * the last adds branch and bound on what is live at the boundaries */
    unsigned off;   /* bit s: stage s is off, and so are those that build on it: all but floor and demand build on
                     * interval, tree on overlap */
    bool (*stop)(void *data); /* asked between cuts; true ends with the best bound so far. NULL: never asked */
    void *data;
    mp_bound_report *report; /* initialised by the caller, filled on MP_OK; NULL: no report */
} mp_bound_options;

/* True if the stage and those that it builds on are on. */
bool mp_bound_is_on(const mp_bound_options *options, mp_bound_stage stage);
