/* test_dag.c - the interface to igraph: the forward graph, cut tensors against a search for paths, topological orders. */
#include <igraph/igraph.h>

#include "estimator/base/memory.h"
#include "planner/order/dag.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_dag.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 500, NODES = 12, FAMILY = 20 };

static bool reads(const mp_graph *graph, int node, int storage)
{
    const mp_alternative *alternative = &graph->nodes[node].alternatives[0];
    for (size_t i = 0; i < alternative->n_reads; i++)
        if (alternative->reads[i] == storage) return true;
    return false;
}

TEST(forward_graph_has_an_edge_per_value_that_is_read)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = random_graph(seed, 1 + (int)(seed % NODES), (mp_fuse)(seed % 3), seed % 5 == 0);
        mp_dag *dag = NULL;
        int n_edges = 0;
        assert_int_equal(mp_dag_build(graph, &dag, NULL), MP_OK);
        for (int v = 0; v < dag->n_vertices; v++) {
            assert_int_equal(dag->vertex[dag->node[v]], v);
            for (int u = 0; u < v; u++) {
                bool expected = false, predecessor = false, successor = false;
                for (size_t s = 0; s < graph->n_storages; s++)
                    expected |= graph->producer[s] == dag->node[u] && !mp_storage_is_static(&graph->storages[s]) &&
                                reads(graph, dag->node[v], (int)s);
                for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
                    predecessor |= dag->predecessors[e] == u;
                for (int e = dag->successors_start[u]; e < dag->successors_start[u + 1]; e++)
                    successor |= dag->successors[e] == v;
                assert_int_equal(predecessor, successor);
                if (expected)
                    assert_true(predecessor); /* other predecessors exist only through storages that are always live */
                n_edges += predecessor;
            }
        }
        assert_int_equal(n_edges,
                         dag->predecessors_start[dag->n_vertices]); /* no edge occurs twice, and none leads backwards */
        assert_int_equal(n_edges, dag->successors_start[dag->n_vertices]);
        mp_dag_free(dag);
        mp_graph_free(graph);
    }
}

/* True if a path leads from a vertex without reads to a vertex without readers and avoids the vertex `without`. */
static bool path_avoids(const mp_dag *dag, int without)
{
    bool reached[64] = {false};
    for (int v = 0; v < dag->n_vertices; v++) {
        reached[v] = dag->predecessors_start[v] == dag->predecessors_start[v + 1];
        for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
            reached[v] |= reached[dag->predecessors[e]];
        if (v == without) reached[v] = false;
        if (reached[v] && dag->successors_start[v] == dag->successors_start[v + 1]) return true;
    }
    return false;
}

TEST(cut_tensors_are_those_that_no_path_avoids)
{
    size_t n_found = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = NULL;
        mp_dag *dag = NULL;
        int cuts[NODES];
        size_t n_cuts, at = 0;
        assert_int_equal(random_dag(seed, NODES, &graph, NULL), MP_OK);
        assert_int_equal(mp_dag_build(graph, &dag, NULL), MP_OK);
        assert_int_equal(mp_cut_tensors(graph, cuts, &n_cuts, NULL), MP_OK);
        for (int v = 0; v < dag->n_vertices; v++) { /* vertex, node and storage have equal indices */
            const bool is_read = dag->successors_start[v] < dag->successors_start[v + 1];
            if (!is_read || path_avoids(dag, v)) continue;
            if (at >= n_cuts || cuts[at] != v) fail_msg("seed %llu: %d cuts", (unsigned long long)seed, v);
            at++;
        }
        assert_int_equal(at, n_cuts);
        n_found += n_cuts;
        mp_dag_free(dag);
        mp_graph_free(graph);
    }
    assert_true(n_found > SEEDS);
}

/* x -> a -> b -> c -> d, with a weight that is cast in every step and read by a and d, and a mask computed from the batch.
 * Neither counts as a path from the inputs that bypasses the nodes between. */
TEST(parameters_and_masks_do_not_spoil_a_cut)
{
    static const struct {
        mp_kind kind;
        int64_t bytes;
    } storages[] = {{MP_KIND_INPUT, 4},        {MP_KIND_PARAMETER, 4},  {MP_KIND_ACTIVATION, 8},
                    {MP_KIND_ACTIVATION, 4},   {MP_KIND_ACTIVATION, 8}, {MP_KIND_ACTIVATION, 8},
                    {MP_KIND_ACTIVATION, 640}, {MP_KIND_SAVED, 10},     {MP_KIND_ACTIVATION, 4}};
    /* cast: reads the parameter (1), writes 3; mask: reads x (0), writes 8; a: reads x and the cast, writes 2; b: reads 2 and
     * the mask, writes 6 and 7; c: reads 6 and 7, writes 4; d: reads 4 and the cast, writes 5 */
    static const int lists[6][5] = {{1, -1, 3, -1, -1}, {0, -1, 8, -1, -1}, {0, 3, 2, -1, -1},
                                    {2, 8, 6, 7, -1},   {6, 7, 4, -1, -1},  {4, 3, 5, -1, -1}};
    mp_graph *graph = NULL;
    int cuts[9];
    size_t n_cuts;
    assert_int_equal(mp_graph_new("cast", &graph, NULL), MP_OK);
    for (size_t i = 0; i < sizeof storages / sizeof *storages; i++) {
        mp_storage *s;
        assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
        s->name = "storage";
        s->kind = storages[i].kind;
        s->bytes = s->payload_bytes = storages[i].bytes;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        mp_node *node;
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = node->op = "node";
        node->forward_of = -1;
        node->alternatives[0].n_reads = lists[i][1] < 0 ? 1 : 2;
        node->alternatives[0].n_writes = lists[i][3] < 0 ? 1 : 2;
        node->alternatives[0].reads = mp_graph_list(graph, lists[i], node->alternatives[0].n_reads);
        node->alternatives[0].writes = mp_graph_list(graph, lists[i] + 2, node->alternatives[0].n_writes);
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_int_equal(mp_cut_tensors(graph, cuts, &n_cuts, NULL), MP_OK);
    assert_int_equal(n_cuts, 3);
    assert_int_equal(cuts[0], 2);
    assert_int_equal(cuts[1], 6); /* the other 10 bytes are negligible */
    assert_int_equal(cuts[2], 4);
    graph->storages[7].bytes = 11;
    assert_int_equal(mp_cut_tensors(graph, cuts, &n_cuts, NULL), MP_OK);
    assert_int_equal(n_cuts, 2); /* two tensors cross the cut: neither splits the network alone */
    mp_graph_free(graph);
}

TEST(every_order_is_topological)
{
    for (uint64_t seed = 1; seed <= SEEDS / 5; seed++) {
        mp_graph *graph = NULL;
        mp_dag *dag = NULL;
        assert_int_equal(random_dag(seed, NODES, &graph, NULL), MP_OK);
        assert_int_equal(mp_dag_build(graph, &dag, NULL), MP_OK);
        for (int k = 0; k < FAMILY; k++) {
            int order[NODES], again[NODES];
            bool seen[NODES] = {false};
            assert_int_equal(mp_dag_order(dag, k, order, NULL), MP_OK);
            assert_int_equal(mp_dag_order(dag, k, again, NULL), MP_OK);
            assert_memory_equal(order, again, (size_t)dag->n_vertices * sizeof *order);
            for (int i = 0; i < dag->n_vertices; i++) {
                const int v = order[i];
                assert_in_range(v, 0, dag->n_vertices - 1);
                assert_false(seen[v]);
                for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
                    assert_true(seen[dag->predecessors[e]]);
                seen[v] = true;
            }
        }
        mp_dag_free(dag);
        mp_graph_free(graph);
    }
}

static igraph_error_handler_t *installed(void)
{
    igraph_error_handler_t *before = igraph_set_error_handler(igraph_error_handler_ignore);
    igraph_set_error_handler(before);
    return before;
}

TEST(cycle_is_refused_and_the_callers_error_handler_stays)
{
    mp_graph *graph = NULL;
    mp_dag *dag = NULL;
    mp_error err = {0};
    int cuts[NODES];
    size_t n_cuts;
    for (uint64_t seed = 1;; seed++) { /* a graph whose second node reads the first */
        assert_int_equal(random_dag(seed, 6, &graph, NULL), MP_OK);
        if (graph->n_nodes >= 2 && reads(graph, 1, 0) && graph->nodes[0].alternatives[0].n_reads == 0) break;
        mp_graph_free(graph);
    }
    igraph_error_handler_t *before = igraph_set_error_handler(igraph_error_handler_printignore);
    int second = 1;
    graph->nodes[0].alternatives[0].reads =
        &second; /* changed after mp_graph_finish: the first node now reads the second node's output */
    graph->nodes[0].alternatives[0].n_reads = 1;
    assert_int_equal(mp_dag_build(graph, &dag, &err), MP_PARSE);
    assert_null(dag);
    assert_true(err.message[0] != '\0');
    assert_int_equal(mp_cut_tensors(graph, cuts, &n_cuts, NULL), MP_PARSE);
    assert_true(installed() == igraph_error_handler_printignore);
    igraph_set_error_handler(before);
    mp_graph_free(graph);
}

TEST(dag_survives_every_allocation_failure)
{
    mp_graph *graph = random_graph(3, 8, MP_FUSE_NONE, false);
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    int *cuts = mp_alloc(graph->n_storages, sizeof *cuts);
    for (long k = 0; st != MP_OK; k++) {
        mp_dag *dag = NULL;
        size_t n;
        mp_alloc_budget = k;
        st = mp_dag_build(graph, &dag, NULL);
        if (st == MP_OK) st = mp_cut_tensors(graph, cuts, &n, NULL);
        if (st == MP_OK) st = mp_dag_order(dag, 0, cuts, NULL);
        if (st == MP_OK) st = mp_dag_order(dag, 3, cuts, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        mp_dag_free(dag);
        assert_int_equal(mp_alloc_live, live + 1);
    }
    mp_free(cuts);
    mp_graph_free(graph);
}
