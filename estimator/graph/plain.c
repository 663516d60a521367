/* plain.c - copies the compute part of a graph, with a map to the numbers in the original graph. */
#include "estimator/graph/plain.h"

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

static mp_status copy_node(mp_plain *out, const mp_graph *graph, int v, int *at, mp_error *err)
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

mp_status mp_plain_of(const mp_graph *graph, mp_plain *out, mp_error *err)
{
    MP_CLEARED_BY(mp_plain_free) mp_plain plain = {0};
    size_t n = 0;
    int at = 0;
    MP_CHECK(mp_graph_new(graph->name, &plain.graph, err));
    plain.graph->options = graph->options;
    plain.graph->target = graph->target;
    plain.graph->alignment = graph->alignment;
    plain.graph->tick_seconds = graph->tick_seconds;
    plain.graph->fuse = graph->fuse;
    for (size_t v = 0; v < graph->n_nodes; v++) n += graph->nodes[v].n_alternatives;
    plain.nodes = mp_pool_alloc(plain.graph->pool, graph->n_nodes, sizeof *plain.nodes);
    plain.alternatives_start = mp_pool_alloc(plain.graph->pool, graph->n_nodes, sizeof *plain.alternatives_start);
    plain.alternatives = mp_pool_alloc(plain.graph->pool, n, sizeof *plain.alternatives);
    int *number = mp_pool_alloc(plain.graph->pool, graph->n_nodes, sizeof *number);
    MP_ENSURE(plain.nodes && plain.alternatives_start && plain.alternatives && number, err, MP_NOMEM,
              "no memory for the graph '%s' without copies", graph->name);
    for (size_t s = 0; s < graph->n_storages; s++) {
        mp_storage *storage;
        MP_CHECK(mp_graph_storage(plain.graph, &storage, err));
        *storage = graph->storages[s];
        if (storage->tier != MP_TIER_DEVICE) storage->bytes = storage->payload_bytes = 0;
        storage->tier = MP_TIER_DEVICE;
    }
    for (int v = 0; v < (int)graph->n_nodes; v++) {
        number[v] = (int)plain.graph->n_nodes;
        if (!is_optional(graph, v)) MP_CHECK(copy_node(&plain, graph, v, &at, err));
    }
    for (size_t v = 0; v < plain.graph->n_nodes; v++) {
        int *of = &plain.graph->nodes[v]
                       .forward_of; /* forward_of is translated, because nodes have other indices in the plain graph */
        *of = *of < 0 || is_optional(graph, *of) ? -1 : number[*of];
    }
    MP_CHECK(mp_graph_finish(plain.graph, err));
    *out = plain;
    plain = (mp_plain){0};
    return MP_OK;
}

void mp_plain_free(mp_plain *plain)
{
    mp_graph_free(plain->graph);
    *plain = (mp_plain){0};
}

void mp_plain_back(const mp_plain *plain, mp_step *steps, size_t n)
{
    for (size_t t = 0; t < n; t++) {
        steps[t].alternative = plain->alternatives[plain->alternatives_start[steps[t].node] + steps[t].alternative];
        steps[t].node = plain->nodes[steps[t].node];
    }
}
