/* plan.h - a plan: an ordered list of steps, and claims about memory, time and offsets. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"
#include "memplan/timeline.h"

/* The value of a budget that means "no budget"; plan files store null. */
#define MP_NO_LIMIT INT64_MAX

/* One row of the address map: the offset and lifetime of an instance, or of a step's workspace. */
typedef struct mp_place {
    int storage;    /* index of the storage; -1: the place is the workspace of step `begin` */
    int begin, end; /* steps [begin, end) */
    int64_t offset, bytes;
} mp_place;

/* The claims of a plan about one tier other than the device. */
typedef struct mp_tier_claim {
    int64_t budget_bytes;             /* MP_NO_LIMIT: none */
    int64_t static_bytes, peak_bytes; /* claimed memory in this tier; -1: not stated */
    int64_t arena_bytes; /* claimed height of the tier's arena, a multiple of its alignment; -1: the plan has no offsets in this
                            tier */
    size_t n_places;
    mp_place *places; /* places of the instances in this tier; NULL: the plan has no offsets in this tier */
} mp_tier_claim;

typedef struct mp_plan {
    char graph_hash[33];        /* hash of the graph that the plan belongs to; "": unknown */
    char *graph_name, *options; /* options: JSON text, a copy of mp_graph.options */
    char *solver;               /* name of the searcher that found the plan; "": unknown */
    uint64_t seed;
    bool cut_short; /* true: the search ended early, by a stop request or its time limit; another run may find another plan */
    int64_t
        budget_bytes; /* limit of static_bytes + arena_bytes, or of the peak if the plan has no offsets; MP_NO_LIMIT: none */
    int64_t static_bytes, peak_bytes; /* claimed bytes of static storages, and claimed peak, on the device; -1: not stated */
    int64_t arena_bytes; /* claimed size of the device arena in bytes; -1: the plan has no offsets. mp_arena_layout (arena.h)
                            adds them */
    int64_t baseline_peak_bytes, floor_bytes; /* claimed peak of keep-all, and claimed floor of the graph; -1: not stated */
    mp_tier_claim tiers[MP_MAX_TIERS]; /* per tier of the graph except the device: the claims of the plan. The other members
                                          contain the device's claims */
    int64_t ticks, baseline_ticks;     /* ticks of the plan and of keep-all. baseline_ticks excludes copies of state, as in the
                                          training step that the user wrote */
    double seconds;                    /* claimed time of the plan in seconds; negative: not stated */
    double baseline_seconds, lower_bound_seconds; /* claimed seconds of keep-all, and claimed lower bound on the seconds of all
                                                     plans; negative: not stated */
    char *bound_covers; /* the set of plans for which the lower bound holds: "any-order" or "this-order"; "": no bound */
    size_t n_checkpoints;
    int *checkpoints; /* indices of the storages that the plan keeps as checkpoints, in order of production */
    size_t n_steps;
    mp_step *steps;
    bool *recompute;          /* per step: true if the plan claims that the step is a recomputation; NULL: no claims */
    int *frees_start, *frees; /* claim: step t frees the storages frees[frees_start[t] .. frees_start[t+1]); NULL: no claims */
    size_t n_places;
    mp_place
        *places; /* offsets and lifetimes of all instances and workspaces in the device arena; NULL: the plan has no offsets */
} mp_plan;

/* Creates a plan from an order of steps. All claims are derived from the timeline: static bytes, peak, seconds, baseline,
 * checkpoints, recompute flags, frees, and bytes of all tiers. The plan has no budgets, floor, offsets or bound. Release
 * *out with mp_plan_free. MP_INVALID as mp_timeline_build. MP_NOMEM. */
mp_status mp_plan_new(const mp_graph *graph, const char *solver, const mp_step *steps, size_t n, mp_plan **out, mp_error *err);
void mp_plan_free(mp_plan *plan); /* NULL is allowed */
MP_OWNER(mp_plan_free, mp_plan)
/* Returns the plan's peak minus its static bytes, a lower bound on its arena. O(1). */
int64_t mp_plan_live_bytes(const mp_plan *plan);
/* Returns a copy of a text that a plan can own. Before you replace a text of a plan, release the old text with mp_free.
 * NULL: out of memory. */
char *mp_plan_text(const char *text);

/* Finds the checkpoints of an order of steps: activations whose first instance is read by a backward node, so that backward
 * needs no recomputation of them. An activation here is a storage that a forward node produces and that is neither static
 * nor `saved`. Writes the indices of the checkpoints in order of production (at most graph->n_storages), and their number to
 * *n_out. MP_NOMEM. O(reads, writes and adds of all steps). */
mp_status mp_plan_checkpoints(const mp_graph *graph, const mp_step *steps, size_t n, int *storages, size_t *n_out,
                              mp_error *err);

/* The way in which an order of steps treats a forward tensor. */
typedef enum mp_fate {
    MP_FATE_NONE, /* the fate is undefined: no forward or loss node produces the storage, it is static, or it is in another
                     tier */
    MP_FATE_FORWARD_ONLY, /* no backward node reads it */
    MP_FATE_RECOMPUTED,   /* backward reads the storage only after its node has run a second time or later */
    MP_FATE_KEPT,         /* backward reads the result of the node's first run */
    MP_FATE_COPIED, /* backward reads the storage only after a later run, and at least one read uses a copy brought back from
                       another tier */
    MP_N_FATES
} mp_fate;

/* Writes the fate of every storage under steps[0..n) to fates[0 .. n_storages). A storage that backward does not read, but
 * later recomputations do, is also MP_FATE_RECOMPUTED. MP_NOMEM. O(reads, writes and adds of all steps). */
mp_status mp_fates(const mp_graph *graph, const mp_step *steps, size_t n, mp_fate *fates, mp_error *err);
/* Adds up the bytes of all storages by kind and fate under the plan: bytes[kind][fate]. MP_NOMEM. O(reads, writes and adds of
 * all steps). */
mp_status mp_plan_fate_bytes(const mp_graph *graph, const mp_plan *plan, int64_t bytes[MP_N_KINDS][MP_N_FATES], mp_error *err);

/* Returns the bytes that a plan requires on the device: static_bytes + arena_bytes, or the peak if the plan has no offsets.
 * O(1). */
int64_t mp_plan_need(const mp_plan *plan);
/* Returns the bytes that a plan requires in a tier other than the device. Each static storage of that tier occupies a
 * multiple of the tier's alignment. O(storages). */
int64_t mp_plan_tier_need(const mp_graph *graph, const mp_plan *plan, int tier);
