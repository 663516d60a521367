/* variant.h - a graph with other ticks, workspaces or phases, for searchers that are to see it so. */
#pragma once

#include "memplan/graph.h"

/* A graph whose nodes and alternatives are its own; all else, and what they point to, is another graph's, which has to outlive
 * it. mp_graph_free is not for it. */
typedef struct mp_variant {
    mp_graph graph;
    mp_pool *pool;
} mp_variant;

/* Gives the graph as it is, whose nodes and alternatives may be changed then. On MP_OK *out is released with mp_variant_free (a
 * zeroed one is fine). MP_NOMEM. O(nodes + alternatives). */
mp_status mp_variant_of(const mp_graph *graph, mp_variant *out, mp_error *err);
void mp_variant_free(mp_variant *variant);
