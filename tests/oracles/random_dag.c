/* random_dag.c - small random forward graphs. */
#include "tests/oracles/random_dag.h"

#include "planner/math/splitmix.h"

mp_status random_dag(uint64_t seed, int max_nodes, mp_graph **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    uint64_t random = seed;
    const int n = 1 + (int)(mp_splitmix_next(&random) % (uint64_t)max_nodes);
    const int reach = 1 + (int)(mp_splitmix_next(&random) % (uint64_t)n); /* largest distance between a node and its operands */
    const uint64_t per_thousand = mp_splitmix_next(&random) % 1001;       /* probability of an edge */
    const bool is_chain = mp_splitmix_next(&random) % 4 == 0;
    MP_CHECK(mp_graph_new("random", &graph, err));
    for (int v = 0; v < n; v++) {
        mp_storage *storage;
        mp_node *node;
        int reads[64];
        size_t n_reads = 0;
        MP_CHECK(mp_graph_storage(graph, &storage, err));
        storage->name = mp_pool_format(graph->pool, "s%d", v);
        storage->kind = MP_KIND_ACTIVATION;
        storage->bytes = storage->payload_bytes = 1 + (int64_t)(mp_splitmix_next(&random) % 12);
        for (int w = v - 1; w >= 0 && w >= v - reach; w--)
            if ((is_chain && w == v - 1) || mp_splitmix_next(&random) % 1000 < per_thousand) reads[n_reads++] = w;
        MP_CHECK(mp_graph_node(graph, &node, err));
        node->name = mp_pool_format(graph->pool, "n%d", v);
        node->op = "node";
        node->phase = MP_PHASE_FORWARD;
        node->forward_of = -1;
        mp_alternative *alternative = &node->alternatives[0];
        alternative->ticks = 1 + (int64_t)(mp_splitmix_next(&random) % 9);
        alternative->n_reads = n_reads;
        alternative->reads = mp_graph_list(graph, reads, n_reads);
        alternative->n_writes = 1;
        alternative->writes = mp_graph_list(graph, &v, 1);
        MP_ENSURE(storage->name && node->name && alternative->reads && alternative->writes, err, MP_NOMEM, "out of memory");
    }
    MP_CHECK(mp_graph_finish(graph, err));
    *out = graph;
    graph = NULL;
    return MP_OK;
}
