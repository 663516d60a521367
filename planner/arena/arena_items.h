/* arena_items.h - the items that a plan puts into an arena, and the way back from items with offsets to places.
 * Private to planner/arena.
 *
 * Spans that share one offset form a ring, and become one item: the two lives of a carried gradient, and an output with the
 * input whose memory it takes over. Workspaces are items of one step, behind the others.
 */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/arena.h"
#include "memplan/timeline.h"
#include "planner/arena/arena.h"

typedef struct mp_arena_items {
    const mp_graph *graph;
    int tier; /* whose arena it is */
    int64_t alignment;
    mp_timeline *timeline;
    mp_pool *pool;  /* owns what follows, and items and pieces of the problem */
    int *item;      /* per span: the number of its ring, -1: none */
    int *next;      /* per span: the next span of its ring */
    bool *outlives; /* per span: true if its ring has a span of a storage that outlives the step */
    size_t n_rings; /* the problem's first items */
} mp_arena_items;

/* Lists the items of a plan in a tier, over its steps; sizes and lifetimes of the problem are set, offsets are not. On MP_OK
 * and on an error *out is released with mp_arena_items_clear, and *problem lives as long. MP_INVALID: as mp_timeline_build, or
 * bytes that are too many to be counted. MP_NOMEM. O(n log n). */
mp_status mp_arena_items_of(const mp_graph *graph, const mp_plan *plan, int tier, int64_t alignment, mp_arena_items *out,
                            mp_arena_problem *problem, mp_error *err);
void mp_arena_items_clear(mp_arena_items *items); /* a zeroed one is fine */

/* Makes places of items that have offsets; arena_bytes is where the highest one ends. *out owns its places. MP_NOMEM. O(n). */
mp_status mp_arena_items_place(const mp_arena_items *items, const mp_plan *plan, const mp_arena_item *placed,
                               mp_tier_layout *out, mp_error *err);
