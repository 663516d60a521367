/* arena_items.h - lists the items that a plan places in an arena, and converts items with offsets to places. Internal to
 * planner/arena.
 *
 * Some spans (lifetimes of storages, memplan/timeline.h) must share one offset. Examples are the two lives of a carried
 * gradient, or an output and the input whose memory it takes over. Such spans form a ring and become one item. A workspace is
 * an item that lasts one step. The items of workspaces follow all other items. */
#pragma once

#include "estimator/base/memory.h"
#include "memplan/arena.h"
#include "memplan/timeline.h"
#include "planner/arena/arena.h"

typedef struct mp_arena_items {
    const mp_graph *graph;
    int tier; /* the tier of the arena */
    int64_t alignment;
    mp_timeline *timeline;
    mp_pool *pool;  /* owns all arrays of this struct, and the items and pieces of `problem` */
    int *item;      /* per span: index of the ring that contains it; -1: the span needs no memory in this arena */
    int *next;      /* per span: the next span of the same ring; the ring's last span leads to its first span */
    bool *outlives; /* per span: true if some storage of the span's ring is live beyond the end of the training step */
    size_t n_rings; /* number of rings; the items of rings come first in the problem */
} mp_arena_items;

/* Lists the items of a plan in a tier. Sets their sizes and lifetimes, but no offsets. Release *out with mp_arena_items_clear
 * on MP_OK and on errors; it owns the data of *problem. MP_INVALID: as mp_timeline_build, or the number of bytes overflows.
 * MP_NOMEM. O(n log n). */
mp_status mp_arena_items_of(const mp_graph *graph, const mp_plan *plan, int tier, int64_t alignment, mp_arena_items *out,
                            mp_arena_problem *problem, mp_error *err);
void mp_arena_items_clear(mp_arena_items *items); /* a zeroed struct is allowed */

/* Converts items with offsets to places. out->arena_bytes is the highest end of all items. *out owns its places. MP_NOMEM.
 * O(n). */
mp_status mp_arena_items_place(const mp_arena_items *items, const mp_plan *plan, const mp_arena_item *placed,
                               mp_tier_layout *out, mp_error *err);
