/* arena.h - the arena: offsets for all instances and workspaces of a plan in one block of memory.
 *
 * An item is an instance of a storage or the workspace of a step. Instances that take over each other's memory in place form
 * one item. The two lives of a carried gradient also form one item, because its bytes keep their place between training steps.
 * Items that are live at the same time must not overlap. This is dynamic storage allocation (NP-hard: Garey and Johnson 1979,
 * SR2).
 *
 * Method: first fit and best fit place the items one by one, in several orders: by size, by size times lifetime, by
 * lifetime, by beginning, and outwards from the step with the most live bytes. The layout with the smallest arena is used.
 * The largest live bytes of any step are a lower bound on the arena. If the arena equals this bound, the search ends.
 * Otherwise an exact search (pack.h) of bounded length tries to find a smaller arena or to prove that none exists. The exact
 * search first places the large items, then the small ones. */
#pragma once

#include "memplan/pack.h"
#include "memplan/plan.h"

/* Assigns an offset in its tier to each instance and workspace of the plan. An offset is a multiple of the tier's alignment.
 * Replaces places, n_places and arena_bytes of the plan and of its tiers. Deterministic.
 *
 * Takes O(r n^2) with a small constant, for n items and r tried orders of placement. Plans of more than 20,000 items use only
 * first fit with an index, in a few orders; this takes about O(n log^2 n) in practice. MP_INVALID: as mp_timeline_build.
 * MP_NOMEM. */
mp_status mp_arena_layout(const mp_graph *graph, mp_plan *plan, mp_error *err);

/* Makes the plan of keep-all, with offsets. alternatives[k] is the alternative of node k; alternatives NULL: the base
 * alternatives. On MP_OK release *out with mp_plan_free. Errors and cost as mp_arena_layout. */
mp_status mp_keep_all_plan(const mp_graph *graph, const int *alternatives, mp_plan **out, mp_error *err);

/* Limits the effort to lay out the arena of one plan. */
typedef struct mp_arena_options {
    /* largest acceptable size of the device arena. If the arena is larger, an exact search of greater length runs. 0: this
     * second search never runs */
    int64_t capacity_bytes;
    /* true: any arena of at most capacity_bytes will do. The search ends with the first one, and tries no smaller size */
    bool first_fit;
    const int64_t *tier_bytes; /* per tier: limit of static bytes plus arena, in bytes. The entry of the device is ignored.
                                  NULL: no limits */
    /* called repeatedly during the exact search; true ends the search. The search also ends when it finds an arena of at most
     * capacity_bytes. NULL: never stop */
    bool (*stop)(void *data);
    void *data;
} mp_arena_options;

/* Like mp_arena_layout, but the options set the effort. Deterministic if the results of `stop` are. */
mp_status mp_arena_layout_within(const mp_graph *graph, mp_plan *plan, const mp_arena_options *options, mp_error *err);

/* Like mp_arena_layout for the device only; the options control the exact search. options NULL: the exact search is as short as
 * in mp_arena_layout. The height and bound in *result and the option `enough` (mp_pack_options) are in bytes. */
mp_status mp_arena_pack(const mp_graph *graph, mp_plan *plan, const mp_pack_options *options, mp_pack_result *result,
                        mp_error *err);

/* Like mp_arena_pack, for a plan that may have offsets: if the new layout is higher than the plan's own, the plan keeps its
 * own, and the result has its height. */
mp_status mp_arena_repack(const mp_graph *graph, mp_plan *plan, const mp_pack_options *options, mp_pack_result *result,
                          mp_error *err);

/* Computes a lower bound on the arena size of any layout for the plan's steps. Items that share memory in place share an
 * offset. The bound is the maximum of live bytes over the steps, or more if the exact search proves more. The plan is
 * unchanged. Errors and cost as mp_arena_layout. */
mp_status mp_arena_bound(const mp_graph *graph, const mp_plan *plan, int64_t *bytes, mp_error *err);

/* The layout of one tier: the places of a plan's instances. */
typedef struct mp_tier_layout {
    mp_place *places; /* released with mp_free */
    size_t n_places;
    int64_t arena_bytes; /* size of this tier's arena in bytes, without the tier's static bytes */
} mp_tier_layout;

/* Like mp_arena_layout, but for one tier, and *out receives the layout instead of the plan. Memory is assigned in blocks of
 * `alignment` bytes, rounded up to a multiple of the graph's alignment. Offsets and arena_bytes are whole blocks. Instances
 * that are live at the same time share no block. Workspaces are on the device. On an error *out is unchanged. */
mp_status mp_arena_layout_tier(const mp_graph *graph, const mp_plan *plan, int tier, int64_t alignment, mp_tier_layout *out,
                               mp_error *err);
