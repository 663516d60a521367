/* plan.h - a recompute plan: an ordered list of steps, and what it claims about itself. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

/* The budget of a plan without one: null in files. */
#define MP_NO_LIMIT INT64_MAX

/* One row of the address map: a storage instance, or the workspace of a step. */
typedef struct mp_place {
    int storage;    /* -1: the workspace of the node that runs at step `begin` */
    int begin, end; /* steps [begin, end) */
    int64_t offset, bytes;
} mp_place;

typedef struct mp_plan {
    char graph_hash[33];        /* of the graph it is for; "" when unknown */
    char *graph_name, *options; /* JSON text, as in mp_graph.options */
    char *solver;               /* the name of the searcher; "" when unknown */
    uint64_t seed;
    int64_t budget_bytes;             /* bounds static + arena (without offsets, the peak); MP_NO_LIMIT: none was given */
    int64_t static_bytes, peak_bytes; /* -1: not stated */
    int64_t arena_bytes;              /* -1: no offsets yet; see memplan/arena.h */
    int64_t baseline_peak_bytes, floor_bytes; /* -1: not stated */
    int64_t ticks, baseline_ticks;
    double seconds;                               /* the sum of its ticks, in seconds, as claimed; negative: not stated */
    double baseline_seconds, lower_bound_seconds; /* negative: not stated */
    char *bound_covers; /* the orders that lower_bound_seconds holds for: "any-order", "this-order"; "" without a bound */
    size_t n_checkpoints;
    int *checkpoints; /* storages, in the order of their production */
    size_t n_steps;
    mp_step *steps;
    bool *recompute;          /* per step, as claimed; NULL: not claimed */
    int *frees_start, *frees; /* storages freed by step t, as claimed: frees[frees_start[t] .. frees_start[t+1]); NULL: none */
    size_t n_places;
    mp_place *places; /* NULL: no offsets */
} mp_plan;

/* Makes a plan of these steps for this graph, with every claim derived from the timeline: static, peak, seconds,
 * baseline, checkpoints, recompute flags, frees; no budget, no floor, no offsets, no bound. On MP_OK *out is released
 * with mp_plan_free. MP_INVALID as mp_timeline_build. MP_NOMEM. */
mp_status mp_plan_new(const mp_graph *graph, const char *solver, const mp_step *steps, size_t n, mp_plan **out, mp_error *err);
void mp_plan_free(mp_plan *plan); /* NULL is fine */
MP_OWNER(mp_plan_free, mp_plan)
/* Returns the live bytes at the peak without static bytes: no arena is smaller. O(1). */
int64_t mp_plan_live_bytes(const mp_plan *plan);
/* Returns a copy of a text as plans own them: to replace one, mp_free it first. NULL if memory is short. */
char *mp_plan_text(const char *text);

/* Finds the checkpoints of an order: the storages (not always live, not `saved`, produced by a forward node) whose
 * first production some backward node reads, with no other production in between. Writes at most graph->n_storages
 * indices in the order of production and returns how many. MP_NOMEM. O(list lengths of the steps). */
mp_status mp_plan_checkpoints(const mp_graph *graph, const mp_step *steps, size_t n, int *storages, size_t *n_out,
                              mp_error *err);

/* The fate of a tensor of the forward pass under an order of steps. */
typedef enum mp_fate {
    MP_FATE_NONE,         /* not produced by a forward or loss node, always live, or never produced */
    MP_FATE_FORWARD_ONLY, /* no backward node reads it */
    MP_FATE_RECOMPUTED,   /* backward reads it, but only from a second or later run of its producer */
    MP_FATE_KEPT,         /* backward reads what the first run produced */
    MP_N_FATES
} mp_fate;

/* Finds the fate of every storage, fates[0 .. n_storages), under steps[0..n). A tensor that only other recomputations
 * read is RECOMPUTED as well. MP_NOMEM. O(list lengths of the steps). */
mp_status mp_fates(const mp_graph *graph, const mp_step *steps, size_t n, mp_fate *fates, mp_error *err);

/* Returns the bytes that a plan needs: static_bytes + arena_bytes, or its peak if it has no offsets. O(1). */
int64_t mp_plan_need(const mp_plan *plan);
