/* variant.h - a graph copied so that ticks, workspaces or phases can change, for searchers that need another view. */
#pragma once

#include "memplan/graph.h"

/* A graph that owns its nodes and alternatives only. Everything else belongs to the original graph, which must outlive it.
 * Not to be released with mp_graph_free. */
typedef struct mp_variant {
    mp_graph graph;
    mp_pool *pool;
} mp_variant;

/* Copies a graph's nodes and alternatives, which may then be changed. On MP_OK *out is released with mp_variant_free (a
 * zeroed variant is fine). MP_NOMEM. O(nodes + alternatives). */
mp_status mp_variant_of(const mp_graph *graph, mp_variant *out, mp_error *err);
void mp_variant_free(mp_variant *variant);
