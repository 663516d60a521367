/* variant.c - copies the nodes and alternatives of a graph, so that a searcher can change them. */
#include "planner/order/variant.h"

#include <string.h>

mp_status mp_variant_of(const mp_graph *graph, mp_variant *out, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_node *nodes = mp_pool_alloc(pool, graph->n_nodes, sizeof *nodes);
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) n += graph->nodes[i].n_alternatives;
    mp_alternative *alternatives = mp_pool_alloc(pool, n, sizeof *alternatives);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for %zu nodes", graph->n_nodes);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        nodes[i] = graph->nodes[i];
        nodes[i].alternatives = alternatives;
        memcpy(alternatives, graph->nodes[i].alternatives, nodes[i].n_alternatives * sizeof *alternatives);
        alternatives += nodes[i].n_alternatives;
    }
    *out = (mp_variant){.graph = *graph, .pool = pool};
    out->graph.nodes = nodes;
    pool = NULL;
    return MP_OK;
}

void mp_variant_free(mp_variant *variant)
{
    mp_pool_free(variant->pool);
    *variant = (mp_variant){0};
}
