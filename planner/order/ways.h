/* ways.h - the pairs of copies that move a storage to another tier and back, for searchers that choose offloading. */
#pragma once

#include "memplan/graph.h"
#include "memplan/memory.h"

/* One pair of copies of a storage: out to another tier, and back. */
typedef struct mp_way {
    int storage, out;      /* the storage, and the optional node that copies it out */
    int node, alternative; /* node and alternative that copy the storage back */
} mp_way;

typedef struct mp_ways {
    mp_pool *pool; /* owns both arrays */
    int n;
    mp_way *ways; /* the ways of storage s are [start[s], start[s + 1]) */
    int *start;
} mp_ways;

/* Finds all pairs of copies of a graph. On MP_OK release *out with mp_ways_free (a zeroed struct is allowed). MP_NOMEM.
 * O(graph). */
mp_status mp_ways_find(const mp_graph *graph, mp_ways *out, mp_error *err);
void mp_ways_free(mp_ways *ways);

/* Returns the number of pairs of copies for storage s; 0 for a zeroed struct. O(1). */
static inline int mp_ways_of(const mp_ways *ways, int s)
{
    return ways->n ? ways->start[s + 1] - ways->start[s] : 0;
}
