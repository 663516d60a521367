/* bound_stage.h - the stages of the lower bound: their names, which of them are enabled, and the bound that each has proved.
 *
 * A stage is one method of proof. It raises the bound that the earlier stages have proved. docs/internals/bound.md describes
 * each stage. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mp_bound_stage {
    MP_BOUND_NODES,    /* counts every node once, in its fastest alternative: the basis of all other stages, always enabled */
    MP_BOUND_FLOOR,    /* the minimum memory (floor) */
    MP_BOUND_INTERVAL, /* bounds one interval, with the memory constraint relaxed by a multiplier */
    MP_BOUND_DISJOINT, /* adds up the bounds of disjoint intervals */
    MP_BOUND_COUPLE,   /* couples the consecutive intervals of a chain by multipliers */
    MP_BOUND_OVERLAP,  /* combines overlapping intervals, with multipliers from linear programmes */
    MP_BOUND_TREE,     /* branch and bound on the storages that are live at the boundaries of intervals */
    MP_BOUND_SETTLE,   /* decides for pairs of nodes which runs first in every plan that is faster than a target value */
    MP_BOUND_DEMAND,   /* dynamic programme over live-in sets of storages, from the end of the training step backwards */
    MP_BOUND_CHANNELS, /* combines the channels that run beside compute with the compute steps before and after them; the only
                          stage for graphs with a channel "network" */
    MP_BOUND_SEARCH,   /* a searcher has enumerated every schedule; not part of mp_bound_within */
    MP_BOUND_N_STAGES
} mp_bound_stage;

/* Returns the name of a stage, such as "interval". */
const char *mp_bound_stage_name(mp_bound_stage stage);
/* Finds, by its name, a stage that can be disabled. Returns false if no such stage has this name. */
bool mp_bound_stage_find(const char *name, mp_bound_stage *stage);

/* The amount of work that a stage did, in machine-independent units. */
typedef struct mp_bound_work {
    int64_t n_cuts;   /* minimum cuts */
    int64_t n_pivots; /* work of the simplex method on linear programmes: iterations * rows */
    int64_t n_states; /* number of states that the dynamic programme has examined */
} mp_bound_work;

void mp_bound_work_add(mp_bound_work *to, const mp_bound_work *work);

typedef struct mp_bound_result {
    int64_t ticks;      /* best bound of this stage, in ticks beyond one run of every node; -1: the stage proved no bound */
    bool is_infeasible; /* true if this stage proved that no plan fits the budget */
    mp_bound_work work;
} mp_bound_result;

/* A tensor that the cheapest solution of the deciding interval frees before this interval begins (mp_bound_report). */
typedef struct mp_bound_eviction {
    int storage;
    int64_t bytes;  /* bytes of the tensor, which are freed before the interval */
    int64_t ticks;  /* ticks to recompute the tensor once in the interval */
    bool is_partly; /* true if the relaxed solution keeps a fraction of the tensor live, instead of none */
} mp_bound_eviction;

/* Reports how a bound was proved. The deciding interval is the interval with the largest individual bound; it starts with
 * the first run of node mp_bound.from. */
typedef struct mp_bound_report {
    mp_bound_result stages[MP_BOUND_N_STAGES];
    int64_t least_ticks;   /* ticks of a training step that runs every node once, in its fastest alternative */
    int64_t live_in_bytes; /* live bytes at the start of the deciding interval in a plan that recomputes nothing afterwards */
    int64_t free_bytes;    /* part of the budget that is available for the storages counted in live_in_bytes */
    int64_t ticks;         /* bound of the deciding interval alone, in ticks beyond one run of each of its nodes */
    size_t n;              /* length of `evictions`, which are sorted by descending bytes */
    mp_bound_eviction *evictions;
} mp_bound_report;

/* Initialises a report without proofs. */
void mp_bound_report_init(mp_bound_report *report);
void mp_bound_report_clear(mp_bound_report *report);
/* Merges report `from` into report `to`: per stage the better result and the sum of the work. If takes_interval, also copies
 * the deciding interval of `from`. */
void mp_bound_report_merge(mp_bound_report *to, mp_bound_report *from, bool takes_interval);

typedef struct mp_bound_options {
    bool any_order; /* true: the bound holds for all plans. false: the bound holds only for plans whose first runs of forward
                       nodes, loss nodes and backward nodes are in list order */
    int effort;   /* Amount of work. 0: only one interval. Otherwise one pass runs for each k = 1, 2, 4, .. up to effort. A pass
                     uses a chain of intervals between 16 k boundaries. It adds up to 4 more boundaries, each the best of 4 k
                     nodes, and 32 k rounds of coupling. Then it solves linear programmes of 2500 k rows (at most 20000) over
                     overlapping intervals. If k > 1, the last pass ends with branch and bound on the storages live at the
                     boundaries */
    unsigned off; /* bit s disables stage s and the stages that depend on it. All except floor and demand depend on interval,
                     and tree also on overlap */
    bool (*stop)(
        void *data); /* called repeatedly between minimum cuts; true: end with the best bound so far. NULL: never stop */
    void *data;
    mp_bound_report *report; /* a report from mp_bound_report_init, filled on MP_OK. NULL: no report */
} mp_bound_options;

/* True if the options enable this stage and all stages on which it depends. */
bool mp_bound_is_on(const mp_bound_options *options, mp_bound_stage stage);
