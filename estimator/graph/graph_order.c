/* graph_order.c - can the baseline run, and if not, is a cycle to blame?
 *
 * A storage is there once all that make it have run: its producer or, for a sum, every adder. Carried gradients are there from
 * the start, always-live storages always.
 */
#include "estimator/graph/graph_order.h"

#include "memplan/timeline.h"

static bool is_sum(const mp_graph *graph, int s)
{
    return graph->adders_start[s + 1] > graph->adders_start[s];
}

/* Whether a reader of s has to wait for the nodes that make it. */
static bool is_made(const mp_graph *graph, int s)
{
    return !mp_storage_is_static(&graph->storages[s]) && !graph->storages[s].carried;
}

/* ---- cycles: a depth-first search over nodes and storages, each of which depends on the other kind ---- */

enum { UNSEEN, ON_PATH, DONE };

struct vertex { /* node i is vertex i, storage s is vertex n_nodes + s */
    int parent, next_dependency;
    int colour;
};

/* Dependency number k of a vertex: a vertex, -1 for one that does not count, -2 past the last. */
static int dependency(const mp_graph *graph, int v, int k)
{
    int n = (int)graph->n_nodes;
    if (v < n) {
        const mp_alternative *alternative = &graph->nodes[v].alternatives[0];
        if ((size_t)k >= alternative->n_reads) return -2;
        return is_made(graph, alternative->reads[k]) ? n + alternative->reads[k] : -1;
    }
    int s = v - n, first = graph->adders_start[s];
    if (is_sum(graph, s)) return first + k < graph->adders_start[s + 1] ? graph->adders[first + k] : -2;
    return k == 0 ? graph->producer[s] : -2;
}

/* *node: a node on a dependency cycle, or -1. */
static mp_status find_cycle(const mp_graph *graph, int *node, mp_error *err)
{
    int n = (int)graph->n_nodes;
    struct vertex *vertices = mp_alloc(graph->n_nodes + graph->n_storages, sizeof *vertices);
    if (!vertices) return MP_FAIL(err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    *node = -1;
    for (int root = 0; root < n && *node < 0; root++) {
        int v = vertices[root].colour == UNSEEN ? root : -1;
        if (v >= 0) vertices[v] = (struct vertex){-1, 0, ON_PATH};
        while (v >= 0 && *node < 0) {
            int d = dependency(graph, v, vertices[v].next_dependency++);
            if (d == -2) {
                vertices[v].colour = DONE;
                v = vertices[v].parent;
            } else if (d >= 0 && vertices[d].colour == ON_PATH) {
                *node = d < n ? d : v; /* d is a storage: then v, which depends on it, is a node */
            } else if (d >= 0 && vertices[d].colour == UNSEEN) {
                vertices[d] = (struct vertex){v, 0, ON_PATH};
                v = d;
            }
        }
    }
    mp_free(vertices);
    return MP_OK;
}

/* Says why `node` can't read s yet. */
static mp_status explain(const mp_graph *graph, int node, int s, const bool *ran, mp_error *err)
{
    int on_cycle = -1, maker = graph->producer[s];
    MP_CHECK(find_cycle(graph, &on_cycle, err));
    MP_ENSURE(on_cycle < 0, err, MP_PARSE, "%s is on a dependency cycle", mp_node_label(graph, on_cycle).text);
    for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++)
        if (!ran[graph->adders[a]]) maker = graph->adders[a];
    MP_ENSURE(maker >= 0 && !ran[maker], err, MP_PARSE, "%s reads %s, which nothing produces", mp_node_label(graph, node).text,
              mp_storage_label(graph, s).text);
    return MP_FAIL(err, MP_PARSE, "%s reads %s before %s, which comes later, has made it", mp_node_label(graph, node).text,
                   mp_storage_label(graph, s).text, mp_node_label(graph, maker).text);
}

mp_status mp_graph_check_order(const mp_graph *graph, mp_error *err)
{
    mp_status st = MP_OK;
    bool *ran = NULL;
    int *made = NULL; /* per storage: how many of its makers have run */
    mp_step *steps = NULL;
    MP_REQUIRE(ran = mp_alloc(graph->n_nodes, sizeof *ran), err, MP_NOMEM, "no memory to check the graph '%s'", graph->name);
    MP_REQUIRE(made = mp_alloc(graph->n_storages, sizeof *made), err, MP_NOMEM, "no memory to check the graph '%s'",
               graph->name);
    MP_REQUIRE(steps = mp_alloc(graph->n_nodes, sizeof *steps), err, MP_NOMEM, "no memory to check the graph '%s'",
               graph->name);
    mp_keep_all(graph, steps);
    for (size_t t = 0; t < graph->n_nodes; t++) {
        int node = steps[t].node;
        const mp_alternative *alternative = &graph->nodes[node].alternatives[0];
        for (size_t i = 0; i < alternative->n_reads; i++) {
            int s = alternative->reads[i], makers = is_sum(graph, s) ? graph->adders_start[s + 1] - graph->adders_start[s] : 1;
            if (is_made(graph, s) && made[s] < makers) MP_TRY(explain(graph, node, s, ran, err));
        }
        for (size_t i = 0; i < alternative->n_writes; i++) made[alternative->writes[i]]++;
        for (size_t i = 0; i < alternative->n_adds; i++) made[alternative->adds[i]]++;
        ran[node] = true;
    }
done:
    mp_free(ran);
    mp_free(made);
    mp_free(steps);
    return st;
}
