/* ways.h - the ways of storages to other tiers and back, for searchers that choose what is copied. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

/* One way of a storage to another tier and back. */
typedef struct mp_way {
    int storage, out;      /* `out`: the optional node that copies it */
    int node, alternative; /* what brings it back */
} mp_way;

typedef struct mp_ways {
    mp_pool *pool; /* owns both arrays */
    int n;
    mp_way *ways; /* of storage s those in [start[s], start[s + 1]) */
    int *start;
} mp_ways;

/* Finds all ways of a graph. On MP_OK *out is released with mp_ways_free (a zeroed one is fine). MP_NOMEM. O(graph). */
mp_status mp_ways_find(const mp_graph *graph, mp_ways *out, mp_error *err);
void mp_ways_free(mp_ways *ways);

/* Returns how many ways storage s has; also of a zeroed one. O(1). */
static inline int mp_ways_of(const mp_ways *ways, int s)
{
    return ways->n ? ways->start[s + 1] - ways->start[s] : 0;
}
