/* bound_stage.h - the stages of the bound: their names, which of them are switched on, and what each has proved.
 *
 * A stage raises the bound that the stages before it have proved. docs/internals/bound.md says what each one is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mp_bound_stage {
    MP_BOUND_NODES,    /* every node once, in its fastest alternative: the base of all other stages, always on */
    MP_BOUND_FLOOR,    /* the minimum memory */
    MP_BOUND_INTERVAL, /* one interval, memory relaxed by a multiplier */
    MP_BOUND_DISJOINT, /* disjoint intervals, whose ticks add up */
    MP_BOUND_COUPLE,   /* the intervals of a chain coupled by multipliers */
    MP_BOUND_OVERLAP,  /* overlapping intervals, with multipliers from linear programmes */
    MP_BOUND_TREE,     /* branch and bound on what is live at their boundaries */
    MP_BOUND_SETTLE,   /* fixes which of two nodes runs first, by a target */
    MP_BOUND_DEMAND,   /* dynamic programme over live-in sets, backward from the end of the step */
    MP_BOUND_CHANNELS, /* what runs beside compute, with what compute does before and behind it; alone in graphs with a network
                        */
    MP_BOUND_SEARCH,   /* a searcher that has enumerated every schedule; not part of mp_bound_within */
    MP_BOUND_N_STAGES
} mp_bound_stage;

/* Returns the name of a stage, as "interval". */
const char *mp_bound_stage_name(mp_bound_stage stage);
/* Finds the stage of this name that can be switched off. Returns false if there is none. */
bool mp_bound_stage_find(const char *name, mp_bound_stage *stage);

/* The work of a stage, in units that do not depend on the machine. */
typedef struct mp_bound_work {
    int64_t n_cuts;   /* minimum cuts */
    int64_t n_pivots; /* of linear programmes: iterations * rows */
    int64_t n_states; /* states of the dynamic programme that were examined */
} mp_bound_work;

void mp_bound_work_add(mp_bound_work *to, const mp_bound_work *work);

typedef struct mp_bound_result {
    int64_t ticks;      /* ticks beyond one run of every node: the best bound of this stage; -1: none */
    bool is_infeasible; /* true if it proved that no plan fits */
    mp_bound_work work;
} mp_bound_result;

/* A tensor that the deciding interval's cheapest choice does not keep live at the start of the interval. */
typedef struct mp_bound_eviction {
    int storage;
    int64_t bytes;  /* freed at the start of the interval */
    int64_t ticks;  /* ticks of a run of its producer in the interval */
    bool is_partly; /* true if the relaxed problem keeps a fraction of it live */
} mp_bound_eviction;

/* What a bound is made of. The deciding interval starts with the first run of mp_bound.from. */
typedef struct mp_bound_report {
    mp_bound_result stages[MP_BOUND_N_STAGES];
    int64_t least_ticks;   /* ticks of every node once, in its fastest alternative */
    int64_t live_in_bytes; /* at the deciding interval's start: live bytes if nothing is recomputed later, ... */
    int64_t free_bytes;    /* ... and the bytes that the budget leaves for them */
    int64_t ticks;         /* ticks beyond first runs that this interval takes by itself */
    size_t n;              /* sorted by descending bytes */
    mp_bound_eviction *evictions;
} mp_bound_report;

/* Initialises a report in which no stage has proved anything. */
void mp_bound_report_init(mp_bound_report *report);
void mp_bound_report_clear(mp_bound_report *report);
/* Merges `from` into `to`: for every stage the better result and the sum of the work; if takes_interval, also from's
 * deciding interval. */
void mp_bound_report_merge(mp_bound_report *to, mp_bound_report *from, bool takes_interval);

typedef struct mp_bound_options {
    bool any_order; /* false: only plans in list order (first runs of forward nodes, and loss and backward nodes) */
    int effort;     /* 0: one interval. Else passes for k = 1, 2, 4, .. up to effort: a chain of intervals between 16 k
                       boundaries, up to 4 more boundaries, each the best of 4 k nodes, and 32 k rounds of coupling; then linear
                       programmes of 2500 k rows (at most 20000) over overlapping intervals. The last pass, if k > 1, ends with
                       branch and bound on what is live at their boundaries */
    unsigned off;   /* bit s: stage s is off, and the stages that build on it: all but floor and demand on interval, tree on
                     * overlap */
    bool (*stop)(void *data); /* asked between cuts; true: end with the best bound so far. NULL: never stop */
    void *data;
    mp_bound_report *report; /* initialised; filled on MP_OK. NULL: no report */
} mp_bound_options;

/* True if a stage and all stages that it builds on are switched on. */
bool mp_bound_is_on(const mp_bound_options *options, mp_bound_stage stage);
