/* ways.h - ways: pairs of copies that move a storage to another tier and back to the device. Used by searchers that choose
 * which storages are offloaded. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

/* A way: one copy of a storage to another tier, and one copy back. */
typedef struct mp_way {
    int storage, out; /* storage: the storage that is copied; out: the optional node that copies it to another tier */
    /* node: the node that copies the storage back to the device; alternative: the alternative of the node that does so */
    int node, alternative;
} mp_way;

typedef struct mp_ways {
    mp_pool *pool; /* owns both arrays */
    int n;
    mp_way *ways; /* the ways of storage s are ways[start[s] .. start[s + 1]) */
    int *start;
} mp_ways;

/* Finds all ways of a graph. On MP_OK release *out with mp_ways_free (a zeroed struct is allowed). MP_NOMEM. O(graph size). */
mp_status mp_ways_find(const mp_graph *graph, mp_ways *out, mp_error *err);
void mp_ways_free(mp_ways *ways);

/* Returns the number of ways of storage s; 0 for a zeroed struct. O(1). */
static inline int mp_ways_of(const mp_ways *ways, int s)
{
    return ways->n ? ways->start[s + 1] - ways->start[s] : 0;
}
