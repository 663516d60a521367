/* test_windows.c - parts of a list as separate graphs, against the timeline of the whole list; and the search by windows. */
#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/solver.h"
#include "planner/anneal/anneal.h"
#include "planner/order/part.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

/* ---- closed parts ---- */

/* Returns the steps of a part without its two end nodes, up to its last step; *n: their number. All steps of a part follow its
 * first node. */
static mp_step *inner_steps(const mp_part *part, const mp_step *steps, size_t *n)
{
    const int last = (int)part->graph->n_nodes - 1;
    mp_step *inner = mp_alloc(*n, sizeof *inner);
    size_t n_inner = 0;
    bool has_run[64] = {false};
    assert_int_equal(steps[0].node, 0);
    for (size_t t = 1; steps[t].node != last; t++) {
        const int node = mp_part_node(part, steps[t].node);
        assert_true(t < *n && node >= (int)part->from && node < (int)part->to);
        has_run[node - (int)part->from] = true;
        inner[n_inner++] = (mp_step){.node = node, .alternative = steps[t].alternative};
    }
    for (size_t k = 0; k < part->to - part->from; k++) assert_true(has_run[k]); /* no node runs only after the last one */
    *n = n_inner;
    return inner;
}

/* Returns the timeline of the list with these steps instead of the part's nodes. */
static mp_timeline *timeline_with(const mp_graph *graph, const mp_part *part, const mp_step *inner, size_t n_inner)
{
    mp_timeline *timeline = NULL;
    mp_step *steps = mp_alloc(graph->n_nodes + n_inner, sizeof *steps);
    size_t n = 0;
    for (size_t v = 0; v < part->from; v++) steps[n++] = (mp_step){.node = (int)v};
    for (size_t t = 0; t < n_inner; t++) steps[n++] = inner[t];
    for (size_t v = part->to; v < graph->n_nodes; v++) steps[n++] = (mp_step){.node = (int)v};
    assert_int_equal(mp_timeline_build(graph, steps, n, &timeline, NULL), MP_OK);
    mp_free(steps);
    return timeline;
}

static bool has_choices(const mp_graph *graph)
{
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].n_alternatives > 1) return true;
    return false;
}

/* At each step of the part, the live bytes equal those of the whole list with these steps. They may be higher if an alternative
 * reads less. */
TEST(a_closed_part_has_what_lives_in_the_list)
{
    enum { SEEDS = 600, NODES = 14 };
    int n_exact = 0, n_extra = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        random_source random = {seed};
        mp_graph *graph = random_graph(seed, 2 + random_below(&random, NODES), MP_FUSE_NONE, true);
        if (!mp_graph_has_parts(graph)) { /* the graph has no parts if a node writes a storage that is always live */
            mp_graph_free(graph);
            continue;
        }
        int *number = mp_alloc(graph->n_storages, sizeof *number);
        mp_timeline *own = NULL, *whole;
        mp_part part;
        size_t n, n_inner;
        const size_t from = (size_t)random_below(&random, (int)graph->n_nodes),
                     to = from + 1 + (size_t)random_below(&random, (int)(graph->n_nodes - from));
        assert_int_equal(mp_part_init(&part, graph, from, to, true, number, NULL), MP_OK);
        mp_step *steps = random_schedule(part.graph, seed, 6, &n);
        assert_int_equal(mp_timeline_build(part.graph, steps, n, &own, NULL), MP_OK);
        n_inner = n;
        mp_step *inner = inner_steps(&part, steps, &n_inner);
        whole = timeline_with(graph, &part, inner, n_inner);
        const bool is_exact = !has_choices(graph);
        for (size_t t = 0; t < n_inner; t++) {
            assert_true(whole->live_bytes[from + t] <= own->live_bytes[1 + t]);
            if (is_exact) assert_int_equal(whole->live_bytes[from + t], own->live_bytes[1 + t]);
        }
        n_exact += is_exact;
        n_extra += n_inner > to - from;
        mp_timeline_free(own);
        mp_timeline_free(whole);
        mp_free(steps);
        mp_free(inner);
        mp_free(number);
        mp_part_clear(&part);
        mp_graph_free(graph);
    }
    if (n_exact < SEEDS / 10 || n_extra < SEEDS / 4) fail_msg("%d exact, %d with recomputations", n_exact, n_extra);
}

static mp_node *add_node(mp_graph *graph, int writes)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->name = node->op = "node";
    node->forward_of = -1;
    node->alternatives[0].n_writes = 1;
    node->alternatives[0].writes = mp_graph_list(graph, &writes, 1);
    return node;
}

/* Two nodes. The second one reads the output of the first, or has an alternative that reads nothing. */
TEST(what_only_some_alternative_reads_orders_nothing)
{
    enum { FIRST, A, B, LAST };
    mp_graph *graph;
    mp_part part;
    mp_storage *storage;
    int number[2];
    assert_int_equal(mp_graph_new("choice", &graph, NULL), MP_OK);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(mp_graph_storage(graph, &storage, NULL), MP_OK);
        storage->name = "storage";
        storage->kind = MP_KIND_ACTIVATION;
        storage->bytes = storage->payload_bytes = 4;
    }
    add_node(graph, 0);
    mp_node *b = add_node(graph, 1);
    const mp_alternative other = b->alternatives[0];
    assert_non_null(b->alternatives = mp_pool_alloc(graph->pool, 2, sizeof *b->alternatives));
    b->alternatives[0] = b->alternatives[1] = other;
    b->alternatives[0].n_reads = 1;
    b->alternatives[0].reads = mp_graph_list(graph, &(int){0}, 1);
    b->n_alternatives = 2;
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_int_equal(mp_part_init(&part, graph, 0, 2, true, number, NULL), MP_OK);
    assert_int_equal(part.graph->n_nodes, LAST + 1);
    for (int v = A; v <= B; v++) /* empty storages keep both nodes between the ends */
        for (size_t k = 0; k < part.graph->nodes[v].n_alternatives; k++) {
            const mp_alternative *alternative = &part.graph->nodes[v].alternatives[k];
            assert_int_equal(alternative->n_reads, 1 + (v == B && !k));
            assert_int_equal(part.graph->producer[alternative->reads[alternative->n_reads - 1]], FIRST);
            assert_int_equal(alternative->n_writes, 2);
            assert_int_equal(part.graph->readers[part.graph->readers_start[alternative->writes[1]]], LAST);
        }
    mp_part_clear(&part);
    mp_graph_free(graph);
}

TEST(parts_survive_every_allocation_failure)
{
    mp_graph *graph = random_graph(5, 9, MP_FUSE_NONE, true);
    int *number = mp_alloc(graph->n_storages, sizeof *number);
    int n_failed = 0;
    const long live = mp_alloc_live;
    for (long budget = 0;; budget++) {
        mp_part part;
        mp_alloc_budget = budget;
        const mp_status st = mp_part_init(&part, graph, 2, 6, true, number, NULL);
        mp_alloc_budget = -1;
        mp_part_clear(&part);
        assert_int_equal(mp_alloc_live, live);
        if (st == MP_OK) break;
        assert_int_equal(st, MP_NOMEM);
        n_failed++;
    }
    assert_true(n_failed > 10);
    mp_free(number);
    mp_graph_free(graph);
}

/* ---- windows ---- */

enum { LARGE = 7000, REACH = 200 };

/* A large graph with short lifetimes: each node reads some of the storages written shortly before. */
static mp_graph *local_graph(void)
{
    mp_graph *graph;
    random_source random = {7};
    assert_int_equal(mp_graph_new("local", &graph, NULL), MP_OK);
    for (int v = 0; v < LARGE; v++) {
        mp_storage *storage;
        mp_node *node;
        int list[3];
        size_t n = 0;
        assert_int_equal(mp_graph_storage(graph, &storage, NULL), MP_OK);
        storage->name = "storage";
        storage->kind = MP_KIND_ACTIVATION;
        storage->bytes = storage->payload_bytes = 1 + random_below(&random, 100);
        assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
        node->name = node->op = "node";
        node->forward_of = -1;
        node->alternatives[0].ticks = 1 + random_below(&random, 100);
        for (int k = 0; k < 2; k++) {
            const int back = 1 + random_below(&random, random_chance(&random, 20) ? REACH : 8);
            if (v >= back && (!n || list[0] != v - back)) list[n++] = v - back;
        }
        node->alternatives[0].n_reads = n;
        node->alternatives[0].reads = mp_graph_list(graph, list, n);
        node->alternatives[0].n_writes = 1;
        node->alternatives[0].writes = mp_graph_list(graph, &v, 1);
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

TEST(large_local_graphs_are_searched_by_windows)
{
    mp_graph *graph = local_graph();
    mp_answer first = {0}, second = {0};
    assert_true(mp_anneal_has_windows(graph));
    mp_request request = {.graph = graph, .solver = "anneal", .keep_order = true};
    request.budget_bytes = keep_all_peak(graph) * 4 / 5;
    assert_int_equal(mp_solve(&request, &first, NULL), MP_OK);
    assert_int_equal(mp_solve(&request, &second, NULL), MP_OK);
    assert_non_null(first.plan);
    assert_true(first.plan->peak_bytes <= request.budget_bytes);
    assert_true(first.plan->ticks > first.plan->baseline_ticks && first.plan->ticks < first.plan->baseline_ticks * 102 / 100);
    assert_int_equal(mp_plan_check(graph, first.plan, NULL), MP_OK);
    assert_int_equal(first.plan->n_steps, second.plan->n_steps);
    assert_memory_equal(first.plan->steps, second.plan->steps, first.plan->n_steps * sizeof *first.plan->steps);
    int next = 0;
    for (size_t t = 0; t < first.plan->n_steps; t++) next += first.plan->steps[t].node == next;
    assert_int_equal(next, LARGE);
    mp_answer_free(&first);
    mp_answer_free(&second);
    mp_graph_free(graph);
}

/* If one window has no plan, the other windows are still reduced to its size. */
TEST(what_has_no_plan_is_made_small)
{
    mp_graph *graph = local_graph();
    mp_answer answer = {0};
    const int64_t peak = keep_all_peak(graph);
    const mp_request request = {.graph = graph, .solver = "anneal", .budget_bytes = peak / 3};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_null(answer.plan);
    assert_non_null(answer.smallest);
    assert_int_equal(mp_plan_check(graph, answer.smallest, NULL), MP_OK);
    if (answer.smallest->peak_bytes > peak * 3 / 4)
        fail_msg("%lld of %lld bytes", (long long)answer.smallest->peak_bytes, (long long)peak);
    mp_answer_free(&answer);
    mp_graph_free(graph);
}

TEST(windows_survive_allocation_failures)
{
    mp_graph *graph = local_graph();
    const long live = mp_alloc_live;
    const mp_request request = {
        .graph = graph, .solver = "anneal", .keep_order = true, .budget_bytes = keep_all_peak(graph) * 9 / 10};
    mp_status st = MP_NOMEM;
    for (long k = 1; st != MP_OK; k += 1 + k / 2) {
        mp_answer answer = {0};
        mp_alloc_budget = k;
        st = mp_solve(&request, &answer, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        if (st == MP_OK) mp_answer_free(&answer);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(graph);
}
