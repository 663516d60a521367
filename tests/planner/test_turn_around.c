/* test_turn_around.c - graphs without phase marks: the turn-around by its definition, and plans and bounds against an exact
 * search. */
#include "memplan/check.h"
#include "memplan/solver.h"
#include "planner/bound/bound.h"
#include "planner/order/precedence.h"
#include "planner/order/turn_around.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_dag.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 200, NODES = 9, BUDGETS = 4 };

static mp_graph *dag(uint64_t seed)
{
    mp_graph *graph;
    assert_int_equal(random_dag(seed, NODES, &graph, NULL), MP_OK);
    return graph;
}

/* A chain forth and back without phase marks. Each node on the way back reads the previous node's output and the output of its
 * partner on the way forth, sometimes of a neighbour's partner. `times` such chains follow one another. */
static mp_graph *there_and_back(uint64_t seed, int times)
{
    mp_graph *graph;
    random_source random = {seed};
    const int n = times > 1 ? 3 : 3 + random_below(&random, 3);
    assert_int_equal(mp_graph_new("there and back", &graph, NULL), MP_OK);
    for (int i = 0; i < 2 * n * times; i++) {
        const int v = i % (2 * n), first = i - v;
        mp_storage *storage;
        mp_node *node;
        const int partner = 2 * n - 1 - v - (v > n && v < 2 * n - 1 && random_chance(&random, 25));
        const int list[] = {i - 1, first + partner, i};
        assert_int_equal(mp_graph_storage(graph, &storage, NULL), MP_OK);
        storage->name = "storage";
        storage->kind = MP_KIND_ACTIVATION;
        storage->bytes = storage->payload_bytes = 1 + random_below(&random, v < n ? 12 : 4);
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = node->op = "node";
        node->phase = MP_PHASE_FORWARD;
        node->forward_of = -1;
        node->alternatives[0].ticks = 1 + random_below(&random, 9);
        node->alternatives[0].n_reads = (size_t)((i > 0) + (v > n));
        node->alternatives[0].reads = mp_graph_list(graph, list, node->alternatives[0].n_reads);
        node->alternatives[0].n_writes = 1;
        node->alternatives[0].writes = mp_graph_list(graph, list + 2, 1);
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

static bool reads(const mp_graph *graph, int node, int s)
{
    const mp_alternative *alternative = &graph->nodes[node].alternatives[0];
    for (size_t i = 0; i < alternative->n_reads; i++)
        if (alternative->reads[i] == s) return true;
    return false;
}

/* Returns the bytes produced before a node and read by it or later; storage v belongs to node v. */
static int64_t crossing_bytes(const mp_graph *graph, int node)
{
    int64_t bytes = 0;
    for (int s = 0; s < node; s++) {
        bool is_read = false;
        for (int v = node; v < (int)graph->n_nodes; v++) is_read |= reads(graph, v, s);
        if (is_read) bytes += graph->storages[s].bytes;
    }
    return bytes;
}

TEST(most_crosses_before_the_turn_around)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = dag(seed);
        int expected = -1, found;
        int64_t most = 0;
        for (int v = 0; v < (int)graph->n_nodes; v++) {
            if (crossing_bytes(graph, v) <= most) continue;
            most = crossing_bytes(graph, v);
            expected = v;
        }
        assert_int_equal(mp_turn_around(graph, &found, NULL), MP_OK);
        assert_int_equal(found, expected);
        mp_variant marked;
        assert_int_equal(mp_marked_graph_of(graph, &marked, NULL), MP_OK);
        for (int v = 0; v < (int)graph->n_nodes; v++) {
            assert_int_equal(graph->nodes[v].phase, MP_PHASE_FORWARD);
            assert_int_equal(marked.graph.nodes[v].phase,
                             expected >= 0 && v >= expected ? MP_PHASE_BACKWARD : MP_PHASE_FORWARD);
        }
        mp_variant_free(&marked);
        mp_graph_free(graph);
    }
}

/* The example of docs/internals/large-graphs.md: g3 reads a and b again, and most bytes cross the position before it. */
TEST(the_page_tells_where_its_example_turns)
{
    static const int bytes[] = {4, 6, 5, 3, 2, 2, 2, 1},
                     lists[][3] = {{0}, {0, 0}, {1, 0}, {2, 0}, {3, 2}, {4, 1}, {5, 0}, {6}};
    static const int crossing[] = {0, 4, 10, 15, 18, 12, 6, 2};
    mp_graph *graph;
    int found;
    assert_int_equal(mp_graph_new("page", &graph, NULL), MP_OK);
    for (int v = 0; v < 8; v++) {
        mp_storage *storage;
        mp_node *node;
        assert_int_equal(mp_graph_storage(graph, &storage, NULL), MP_OK);
        storage->name = "storage";
        storage->kind = MP_KIND_ACTIVATION;
        storage->bytes = storage->payload_bytes = bytes[v];
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = node->op = "node";
        node->phase = MP_PHASE_FORWARD;
        node->forward_of = -1;
        node->alternatives[0].n_reads = v == 0 ? 0 : v >= 4 && v < 7 ? 2 : 1;
        node->alternatives[0].reads = mp_graph_list(graph, lists[v], node->alternatives[0].n_reads);
        node->alternatives[0].n_writes = 1;
        node->alternatives[0].writes = mp_graph_list(graph, &v, 1);
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    for (int v = 0; v < 8; v++) assert_int_equal(crossing_bytes(graph, v), crossing[v]);
    assert_int_equal(mp_turn_around(graph, &found, NULL), MP_OK);
    assert_int_equal(found, 4);
    mp_graph_free(graph);
}

TEST(marked_graphs_keep_their_marks)
{
    mp_graph *graph = random_graph(3, 8, MP_FUSE_NONE, false);
    int found;
    assert_int_equal(mp_turn_around(graph, &found, NULL), MP_OK);
    assert_int_equal(found, -1);
    mp_graph_free(graph);
}

/* Asserts that the plan of a searcher is valid within the budget and not better than the optimum. */
static bool finds(const mp_graph *graph, const char *solver, int64_t budget, int64_t best, bool *optimal)
{
    mp_answer answer = {0};
    const mp_request request = {.graph = graph, .budget_bytes = budget, .solver = solver, .moves = 1000, .wants_bound = true};
    const mp_status st = mp_solve(&request, &answer, NULL);
    assert_true(st == MP_OK || st == MP_NOT_APPLICABLE);
    const bool has_plan = answer.plan;
    *optimal = has_plan && answer.plan->ticks == best;
    if (has_plan) assert_int_equal(mp_plan_check(graph, answer.plan, NULL), MP_OK);
    if (has_plan) assert_true(best >= 0 && answer.plan->ticks >= best && answer.plan->peak_bytes <= budget);
    if (st == MP_OK && best >= 0) assert_true(!answer.bound.infeasible && answer.bound.ticks <= best);
    mp_answer_free(&answer);
    return has_plan;
}

static int64_t sum_ticks(const mp_graph *graph)
{
    int64_t ticks = 0;
    for (size_t v = 0; v < graph->n_nodes; v++) ticks += graph->nodes[v].alternatives[0].ticks;
    return ticks;
}

TEST(plans_and_bounds_hold_without_marks)
{
    static const char *const solvers[] = {"auto", "chen", "segments", "lower-set", "chain", "lagrange"};
    enum { N = sizeof solvers / sizeof *solvers };
    int n_feasible = 0, n_dear = 0, n_found[N] = {0}, n_optimal = 0, n_parts_dear = 0, n_one_dear = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = seed % 4 ? there_and_back(seed, 1 + (seed % 4 == 3)) : dag(seed);
        const int64_t whole = keep_all_peak(graph), least = sum_ticks(graph);
        for (int k = 1; k <= BUDGETS; k++) {
            const int64_t budget = whole * (2 * BUDGETS - k) / (2 * BUDGETS);
            int64_t best, ticks;
            bool optimal, infeasible;
            assert_true(oracle_exact(graph, budget, true, &best));
            for (int i = 0; i < N; i++) {
                n_found[i] += finds(graph, solvers[i], budget, best, &optimal);
                if (!i) n_optimal += optimal;
            }
            for (size_t nodes = 2; nodes <= NODES; nodes++) {
                mp_bound_work work = {0};
                const mp_bound_options options = {.effort = 1, .any_order = true};
                assert_int_equal(mp_bound_of_parts(graph, budget, nodes, &options, &ticks, &infeasible, &work, NULL), MP_OK);
                if (best >= 0) assert_true(!infeasible && least + ticks <= best);
                n_parts_dear += best >= 0 && ticks > 0 && nodes < graph->n_nodes;
            }
            mp_precedence_most_nodes = 1;
            const mp_bound bound = bound_of(graph, budget, true, 4);
            mp_precedence_most_nodes = 32768;
            if (best >= 0) assert_true(!bound.infeasible && bound.ticks <= best);
            n_one_dear += best >= 0 && bound.ticks > least;
            n_feasible += best >= 0;
            n_dear += best > least;
        }
        mp_graph_free(graph);
    }
    for (int i = 0; i < N; i++)
        if (2 * n_found[i] < n_feasible) fail_msg("%s: %d of %d", solvers[i], n_found[i], n_feasible);
    assert_int_equal(n_found[0], n_feasible);
    assert_int_equal(n_optimal, n_feasible);
    assert_true(n_parts_dear >= 328);
    assert_true(n_dear > n_feasible / 2 && 10 * n_one_dear >= 9 * n_dear);
}
