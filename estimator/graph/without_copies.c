/* without_copies.c - copies the compute part of a graph, with a map to the numbers in the original graph. */
#include "estimator/graph/without_copies.h"

static bool is_optional(const mp_graph *graph, int node)
{
    return node >= 0 && (graph->nodes[node].flags & MP_NODE_OPTIONAL);
}

/* True if an alternative reads the result of an optional node, or copies data back. */
static bool needs_copy(const mp_graph *graph, const mp_alternative *alternative)
{
    for (size_t i = 0; i < alternative->n_reads; i++)
        if (is_optional(graph, graph->producer[alternative->reads[i]])) return true;
    return alternative->returns;
}

static mp_status copy_node(mp_without_copies *out, const mp_graph *graph, int v, int *at, mp_error *err)
{
    mp_node *node;
    MP_CHECK(mp_graph_node(out->graph, &node, err));
    const int number = (int)out->graph->n_nodes - 1;
    *node = graph->nodes[v];
    node->n_alternatives = 0;
    node->alternatives = mp_pool_alloc(out->graph->pool, graph->nodes[v].n_alternatives, sizeof *node->alternatives);
    MP_ENSURE(node->alternatives, err, MP_NOMEM, "no memory for the graph '%s' without copies", graph->name);
    out->nodes[number] = v;
    out->alternatives_start[number] = *at;
    for (size_t k = 0; k < graph->nodes[v].n_alternatives; k++) {
        if (needs_copy(graph, &graph->nodes[v].alternatives[k])) continue;
        node->alternatives[node->n_alternatives] = graph->nodes[v].alternatives[k];
        node->alternatives[node->n_alternatives++].channel = MP_CHANNEL_COMPUTE;
        out->alternatives[(*at)++] = (int)k;
    }
    return MP_OK;
}

mp_status mp_graph_without_copies(const mp_graph *graph, mp_without_copies *out, mp_error *err)
{
    MP_CLEARED_BY(mp_without_copies_free) mp_without_copies without_copies = {0};
    size_t n = 0;
    int at = 0;
    MP_CHECK(mp_graph_new(graph->name, &without_copies.graph, err));
    without_copies.graph->options = graph->options;
    without_copies.graph->target = graph->target;
    without_copies.graph->alignment = graph->alignment;
    without_copies.graph->tick_seconds = graph->tick_seconds;
    without_copies.graph->fuse = graph->fuse;
    for (size_t v = 0; v < graph->n_nodes; v++) n += graph->nodes[v].n_alternatives;
    without_copies.nodes = mp_pool_alloc(without_copies.graph->pool, graph->n_nodes, sizeof *without_copies.nodes);
    without_copies.alternatives_start =
        mp_pool_alloc(without_copies.graph->pool, graph->n_nodes, sizeof *without_copies.alternatives_start);
    without_copies.alternatives = mp_pool_alloc(without_copies.graph->pool, n, sizeof *without_copies.alternatives);
    int *number = mp_pool_alloc(without_copies.graph->pool, graph->n_nodes, sizeof *number);
    MP_ENSURE(without_copies.nodes && without_copies.alternatives_start && without_copies.alternatives && number, err, MP_NOMEM,
              "no memory for the graph '%s' without copies", graph->name);
    for (size_t s = 0; s < graph->n_storages; s++) {
        mp_storage *storage;
        MP_CHECK(mp_graph_storage(without_copies.graph, &storage, err));
        *storage = graph->storages[s];
        if (storage->tier != MP_TIER_DEVICE) storage->bytes = storage->payload_bytes = 0;
        storage->tier = MP_TIER_DEVICE;
    }
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        number[v] = (int)without_copies.graph->n_nodes;
        if (!is_optional(graph, v)) MP_CHECK(copy_node(&without_copies, graph, v, &at, err));
    }
    for (size_t v = 0; v < without_copies.graph->n_nodes; v++) {
        int *of = &without_copies.graph->nodes[v]
                       .forward_of; /* forward_of is translated, because nodes have other indices in the graph without copies */
        *of = *of < 0 || is_optional(graph, *of) ? -1 : number[*of];
    }
    MP_CHECK(mp_graph_finish(without_copies.graph, err));
    *out = without_copies;
    without_copies = (mp_without_copies){0};
    return MP_OK;
}

void mp_without_copies_free(mp_without_copies *without_copies)
{
    mp_graph_free(without_copies->graph);
    *without_copies = (mp_without_copies){0};
}

void mp_without_copies_to_original(const mp_without_copies *without_copies, mp_step *steps, size_t n)
{
    for (size_t t = 0; t < n; t++) {
        steps[t].alternative =
            without_copies->alternatives[without_copies->alternatives_start[steps[t].node] + steps[t].alternative];
        steps[t].node = without_copies->nodes[steps[t].node];
    }
}
