/* arena.h - the arena of a plan gives every instance and every workspace an offset in one block of memory.
 *
 * An item is an instance of a storage, or the workspace of a step; instances that take over each other's memory in place are
 * one item, and so are the two lives of a carried gradient, whose bytes stay where they are from one step of training to the
 * next. Items that are live together must not overlap. This is dynamic storage allocation (NP-hard: Garey and Johnson 1979,
 * SR2).
 *
 * Method: items are placed one after the other, by first fit and by best fit, in several orders (by size, by size times
 * lifetime, by lifetime, by beginning, around the fullest step). The lowest height wins. The live bytes of the fullest step are
 * a lower bound, and where they are reached the search ends; else an exact search (memplan/pack.h) of bounded length looks for
 * a lower arena, at first without the small items, which are placed last, or for the proof that there is none.
 */
#pragma once

#include "memplan/pack.h"
#include "memplan/plan.h"

/* Gives every instance and workspace of the plan's steps an offset in its tier, a multiple of the tier's alignment; replaces
 * the places, n_places and arena_bytes of the plan and of its tiers. Deterministic. O(rounds * n^2) for n items, with a small
 * constant; more than 20,000 items by first fit in a few orders, through an index, in practice about O(n log^2 n). MP_INVALID:
 * as mp_timeline_build. MP_NOMEM. */
mp_status mp_arena_layout(const mp_graph *graph, mp_plan *plan, mp_error *err);

/* The effort spent on the arena of one plan. */
typedef struct mp_arena_options {
    int64_t capacity_bytes; /* if the arena is higher, a longer exact search looks for one within this height; 0: none does */
    const int64_t *tier_bytes; /* the same of each tier besides the device, with what is always live there; NULL: none */
    bool (*stop)(void *data);  /* asked now and then; true ends the search, and so does an arena within the capacity. NULL:
                                * never stop */
    void *data;
} mp_arena_options;

/* Like mp_arena_layout, with these options. Deterministic as long as `stop` is. */
mp_status mp_arena_layout_within(const mp_graph *graph, mp_plan *plan, const mp_arena_options *options, mp_error *err);

/* Like mp_arena_layout of the device alone, with an exact search as long as the options say (NULL: as short as there). Height,
 * bound and the options' `enough` are bytes. */
mp_status mp_arena_pack(const mp_graph *graph, mp_plan *plan, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err);

/* Computes a lower bound on the arena of the plan's steps, where in-place items share an offset: the live bytes of the
 * fullest step, or more if the exact search proves more. Does not change the plan. Otherwise as mp_arena_layout. */
mp_status mp_arena_bound(const mp_graph *graph, const mp_plan *plan, int64_t *bytes, mp_error *err);

/* Where a plan's instances lie in one tier. */
typedef struct mp_tier_layout {
    mp_place *places; /* released with mp_free */
    size_t n_places;
    int64_t arena_bytes; /* without what is always live in the tier */
} mp_tier_layout;

/* Like mp_arena_layout for what the plan's steps have in a tier (workspaces are on the device), in blocks of `alignment` bytes,
 * or of the next multiple of the graph's alignment: offsets and arena_bytes are whole blocks, and no two instances that are
 * live together share one. The plan does not change. On an error *out does not either. */
mp_status mp_arena_layout_tier(const mp_graph *graph, const mp_plan *plan, int tier, int64_t alignment, mp_tier_layout *out,
                               mp_error *err);

/* ---- two plans in one arena ---- */

/* A plan, and when its steps begin: step t at starts[t], in ticks of a common clock, and starts[n_steps] is when it has ended.
 */
typedef struct mp_arena_half {
    const mp_graph *graph;
    const mp_plan *plan;
    const int64_t *starts;
} mp_arena_half;

typedef struct mp_arena_pair {
    mp_tier_layout layouts[2]; /* of each plan: its places in the common arena, and how high those reach */
    int64_t arena_bytes;       /* the height of the common arena */
    int64_t bound_bytes;       /* proved: at this delay no arena is lower */
} mp_arena_pair;

/* Lays out one arena on the device for two plans that repeat beside each other with one period, the second one delayed: what
 * lives at one time does not overlap, and neither does it if the steps run one by one in the order in which they begin. An
 * arena over `capacity_bytes` has a longer search (0: none has). The plans do not change, and mp_plan_check holds with the
 * places in place of theirs. On MP_OK *out is released with mp_arena_pair_free. Deterministic. MP_INVALID: steps that begin
 * before the one before them, or after the period; a delay that is not within it; alignments of which none is a multiple of the
 * other. MP_NOMEM. As mp_arena_layout for the items of both. */
mp_status mp_arena_layout_pair(const mp_arena_half halves[2], int64_t period, int64_t delay, int64_t capacity_bytes,
                               mp_arena_pair *out, mp_error *err);
void mp_arena_pair_free(mp_arena_pair *pair); /* a zeroed one is fine */
