/* variant.h - a copy of a graph whose ticks, workspaces or phases may be changed. Some searchers search such a variant instead
 * of the graph. */
#pragma once

#include "memplan/graph.h"

/* A graph that owns only its nodes and alternatives. All other data belong to the original graph, which must outlive the
 * variant. Do not release it with mp_graph_free. */
typedef struct mp_variant {
    mp_graph graph;
    mp_pool *pool;
} mp_variant;

/* Copies the nodes and alternatives of a graph, which the caller may then change. On MP_OK release *out with mp_variant_free (a
 * zeroed variant is allowed). MP_NOMEM. O(nodes + alternatives). */
mp_status mp_variant_of(const mp_graph *graph, mp_variant *out, mp_error *err);
void mp_variant_free(mp_variant *variant);
