/* chain_graph.c - a chain of equal layers, forward and backward. */
#include "tests/cases/chain_graph.h"

static mp_status storage(mp_graph *graph, mp_kind kind, int64_t bytes, const char *prefix, int k, mp_error *err)
{
    mp_storage *s;
    mp_status st = mp_graph_storage(graph, &s, err);
    if (st != MP_OK) return st;
    s->kind = kind;
    s->bytes = s->payload_bytes = bytes;
    s->name = mp_pool_format(graph->pool, "%s%d", prefix, k);
    return s->name ? MP_OK : MP_NOMEM;
}

static mp_status node(mp_graph *graph, mp_phase phase, int k, int64_t ticks, int read, int also, int write, mp_error *err)
{
    mp_node *n;
    mp_status st = mp_graph_node(graph, &n, err);
    if (st != MP_OK) return st;
    const int reads[] = {read, also};
    n->name = mp_pool_format(graph->pool, "%s%d", mp_phase_name(phase), k);
    n->op = "Layer";
    n->phase = phase;
    n->forward_of = phase == MP_PHASE_BACKWARD ? k - 1 : -1;
    mp_alternative *alternative = n->alternatives;
    alternative->ticks = ticks;
    alternative->n_reads = also >= 0 ? 2 : 1;
    alternative->reads = mp_graph_list(graph, reads, alternative->n_reads);
    alternative->n_writes = 1;
    alternative->writes = mp_graph_list(graph, &write, 1);
    return n->name && alternative->reads && alternative->writes ? MP_OK : MP_NOMEM;
}

/* Storages: 0 is the batch, 1 the parameters, 1 + k activation k, and 1 + n + k the gradient of activation k (k = 0: of the
 * batch). */
mp_status chain_graph(int n, int64_t bytes, int64_t static_bytes, bool backward, mp_graph **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_CHECK(mp_graph_new("chain", &graph, err));
    MP_CHECK(storage(graph, MP_KIND_INPUT, 0, "x", 0, err));
    MP_CHECK(storage(graph, MP_KIND_PARAMETER, static_bytes, "w", 0, err));
    for (int k = 1; k <= n; k++) MP_CHECK(storage(graph, MP_KIND_ACTIVATION, bytes, "a", k, err));
    for (int k = 0; backward && k <= n; k++) MP_CHECK(storage(graph, MP_KIND_ACTIVATION_GRADIENT, bytes, "g", k, err));
    for (int k = 1; k <= n; k++) MP_CHECK(node(graph, MP_PHASE_FORWARD, k, 1, k == 1 ? 0 : k, -1, 1 + k, err));
    if (backward) MP_CHECK(node(graph, MP_PHASE_LOSS, 0, 1, 1 + n, -1, 2 + 2 * n, err));
    for (int k = n; backward && k >= 1; k--)
        MP_CHECK(node(graph, MP_PHASE_BACKWARD, k, 2, 2 + n + k, k == 1 ? 0 : k, 1 + n + k, err));
    MP_CHECK(mp_graph_finish(graph, err));
    *out = graph;
    graph = NULL;
    return MP_OK;
}

int64_t chain_keep_all_bytes(int n, int64_t bytes, int64_t static_bytes)
{
    return static_bytes + (n + 1) * bytes;
}
