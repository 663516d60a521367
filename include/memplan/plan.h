/* plan.h - a recompute plan: an ordered list of steps, and what it claims about itself. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

/* No budget; null in files. */
#define MP_NO_LIMIT INT64_MAX

/* One row of the address map: the place of an instance, or of a step's workspace. */
typedef struct mp_place {
    int storage;    /* -1: the workspace of the node of step `begin` */
    int begin, end; /* steps [begin, end) */
    int64_t offset, bytes;
} mp_place;

/* What a plan states about a tier other than the device. */
typedef struct mp_tier_claim {
    int64_t budget_bytes;             /* MP_NO_LIMIT: none */
    int64_t static_bytes, peak_bytes; /* -1: not stated */
    int64_t arena_bytes;              /* whole multiples of the tier's alignment; -1: no offsets there yet */
    size_t n_places;
    mp_place *places; /* in the tier; NULL: none */
} mp_tier_claim;

typedef struct mp_plan {
    char graph_hash[33];        /* hash of the graph that it is a plan for; "" if unknown */
    char *graph_name, *options; /* options: JSON text, the graph's mp_graph.options */
    char *solver;               /* name of the searcher; "" if unknown */
    uint64_t seed;
    bool cut_short;                           /* its search was stopped, or its time was over: another run may find another */
    int64_t budget_bytes;                     /* limits static + arena, or without offsets the peak; MP_NO_LIMIT: none */
    int64_t static_bytes, peak_bytes;         /* -1: not stated */
    int64_t arena_bytes;                      /* -1: no offsets yet; see memplan/arena.h */
    int64_t baseline_peak_bytes, floor_bytes; /* -1: not stated */
    mp_tier_claim tiers[MP_MAX_TIERS];        /* per tier of the graph; the device's claims are those above */
    int64_t ticks, baseline_ticks;            /* baseline: of keep-all without copies of state, the step as the user has it */
    double seconds;                           /* of its ticks, as claimed; negative: not stated */
    double baseline_seconds, lower_bound_seconds; /* negative: not stated */
    char *bound_covers;                           /* "any-order" or "this-order"; "" if there is no bound */
    size_t n_checkpoints;
    int *checkpoints; /* storages, in order of production */
    size_t n_steps;
    mp_step *steps;
    bool *recompute;          /* per step: true if claimed to be a recomputation; NULL: no claims */
    int *frees_start, *frees; /* step t frees frees[frees_start[t] .. frees_start[t+1]), as claimed; NULL: no claims */
    size_t n_places;
    mp_place *places; /* NULL: no offsets */
} mp_plan;

/* Makes a plan of these steps, with every claim derived from the timeline: static, peak, seconds, baseline, checkpoints,
 * recompute flags, frees, bytes of all tiers; no budgets, floor, offsets or bound. On MP_OK *out is released with mp_plan_free.
 * MP_INVALID as mp_timeline_build. MP_NOMEM. */
mp_status mp_plan_new(const mp_graph *graph, const char *solver, const mp_step *steps, size_t n, mp_plan **out, mp_error *err);
void mp_plan_free(mp_plan *plan); /* NULL is allowed */
MP_OWNER(mp_plan_free, mp_plan)
/* Returns live bytes at the peak without static bytes, a lower bound for the arena. O(1). */
int64_t mp_plan_live_bytes(const mp_plan *plan);
/* Copies a text for a plan to own; to replace one, mp_free the old text. Returns NULL if out of memory. */
char *mp_plan_text(const char *text);

/* Finds the checkpoints of an order: storages (not always live, not `saved`, produced by a forward node) whose first
 * production some backward node reads, with no other production in between. Writes at most graph->n_storages indices in
 * order of production, and their number. MP_NOMEM. O(list lengths of the steps). */
mp_status mp_plan_checkpoints(const mp_graph *graph, const mp_step *steps, size_t n, int *storages, size_t *n_out,
                              mp_error *err);

/* What an order of steps does with a tensor of the forward pass. */
typedef enum mp_fate {
    MP_FATE_NONE,         /* not produced by a forward or loss node, always live, in another tier, or never produced */
    MP_FATE_FORWARD_ONLY, /* no backward node reads it */
    MP_FATE_RECOMPUTED,   /* backward reads it, but only from a second or later run of its node */
    MP_FATE_KEPT,         /* backward reads the production of the first run */
    MP_FATE_COPIED,       /* like RECOMPUTED, but a copy of it was brought back at least once */
    MP_N_FATES
} mp_fate;

/* Writes the fate of every storage under steps[0..n) to fates[0 .. n_storages). A tensor that only other recomputations read
 * is RECOMPUTED as well. MP_NOMEM. O(list lengths of the steps). */
mp_status mp_fates(const mp_graph *graph, const mp_step *steps, size_t n, mp_fate *fates, mp_error *err);

/* Returns the bytes that a plan needs: static_bytes + arena_bytes, or its peak if it has no offsets. O(1). */
int64_t mp_plan_need(const mp_plan *plan);
/* The same of a tier besides the device, where each storage that is always live takes whole multiples of the tier's alignment.
 * O(storages). */
int64_t mp_plan_tier_need(const mp_graph *graph, const mp_plan *plan, int tier);
