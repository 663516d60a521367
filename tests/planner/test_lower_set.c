/* test_lower_set.c - lower sets under the memory model of their paper, against brute force over all strategies. */
#include "estimator/base/memory.h"
#include "memplan/graph_json.h"
#include "planner/order/dag.h"
#include "planner/segments/lower_set.h"
#include "tests/cases/data_file.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_lower_set.h"
#include "tests/oracles/random_dag.h"

enum { SEEDS = 500, MAX_NODES = 8, EXACT = 1 << 20 };

/* A random graph in the forms of the dynamic programme and of the oracle. */
typedef struct fixture {
    mp_graph *graph;
    mp_dag *dag;
    int64_t ticks[ORACLE_VERTICES];
    mp_lower_set_graph forward;
    oracle_lower_set oracle;
} fixture;

static void set_up(fixture *x, uint64_t seed, bool charge_last)
{
    *x = (fixture){0};
    assert_int_equal(random_dag(seed, MAX_NODES, &x->graph, NULL), MP_OK);
    assert_int_equal(mp_dag_build(x->graph, &x->dag, NULL), MP_OK);
    x->oracle.n = x->dag->n_vertices;
    x->oracle.charge_last = charge_last;
    int64_t total = 0;
    for (int v = 0; v < x->oracle.n; v++) {
        const mp_alternative *alternative = &x->graph->nodes[v].alternatives[0];
        x->ticks[v] = x->oracle.ticks[v] = alternative->ticks;
        x->oracle.bytes[v] = x->graph->storages[v].bytes;
        total += x->oracle.bytes[v];
        for (size_t i = 0; i < alternative->n_reads; i++) x->oracle.edge[alternative->reads[i]][v] = true;
    }
    x->forward = (mp_lower_set_graph){x->dag, x->dag->bytes, x->ticks, NULL};
    x->oracle.n_budgets = ORACLE_BUDGETS;
    for (int i = 0; i < ORACLE_BUDGETS; i++) x->oracle.budget[i] = total * (i + 3) * 2 / (ORACLE_BUDGETS + 2);
    oracle_lower_set_solve(&x->oracle);
}

static void tear_down(fixture *x)
{
    mp_dag_free(x->dag);
    mp_graph_free(x->graph);
}

/* Returns the overhead of the first strategy; -1: no strategy. */
static int64_t overhead(const mp_lower_sets *sets, int64_t budget, mp_lower_set_aim aim, int levels, bool charge_last)
{
    mp_lower_set_strategies found = {0};
    assert_int_equal(mp_lower_set_search(sets, budget, aim, levels, INT64_MAX, charge_last, &found, NULL), MP_OK);
    const int64_t ticks = found.n ? found.ticks[0] : -1;
    for (size_t i = 1; i < found.n; i++) {
        assert_true(aim == MP_TIME_CENTRIC ? found.ticks[i] > found.ticks[i - 1] : found.ticks[i] < found.ticks[i - 1]);
        assert_true(found.kept_bytes[i] < found.kept_bytes[i - 1]);
    }
    mp_lower_set_strategies_free(&found);
    return ticks;
}

TEST(exact_search_equals_brute_force)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fixture x;
        mp_lower_sets *sets = NULL;
        const bool charge_last = seed % 3 != 0;
        set_up(&x, seed, charge_last);
        assert_int_equal(mp_lower_sets_all(&x.forward, 1 << MAX_NODES, &sets, NULL), MP_OK);
        if (sets->n != x.oracle.n_lower_sets) fail_msg("seed %llu: %d lower sets", (unsigned long long)seed, sets->n);
        for (int i = 0; i < x.oracle.n_budgets; i++) {
            const int64_t least = overhead(sets, x.oracle.budget[i], MP_TIME_CENTRIC, EXACT, charge_last);
            const int64_t largest = overhead(sets, x.oracle.budget[i], MP_MEMORY_CENTRIC, EXACT, charge_last);
            if (least != x.oracle.least_overhead[i] || largest != x.oracle.largest_overhead[i])
                fail_msg("seed %llu, budget %lld: least %lld, largest %lld; brute force %lld, %lld", (unsigned long long)seed,
                         (long long)x.oracle.budget[i], (long long)least, (long long)largest,
                         (long long)x.oracle.least_overhead[i], (long long)x.oracle.largest_overhead[i]);
        }
        mp_lower_sets_free(sets);
        tear_down(&x);
    }
}

TEST(least_budget_equals_brute_force)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fixture x;
        mp_lower_sets *sets = NULL;
        int64_t least = -1;
        set_up(&x, seed, true);
        assert_int_equal(mp_lower_sets_all(&x.forward, 1 << MAX_NODES, &sets, NULL), MP_OK);
        assert_int_equal(mp_lower_set_least_budget(sets, &least, NULL), MP_OK);
        if (least != x.oracle.least_memory)
            fail_msg("seed %llu: %lld, brute force %lld", (unsigned long long)seed, (long long)least,
                     (long long)x.oracle.least_memory);
        mp_lower_sets_free(sets);
        tear_down(&x);
    }
}

/* A limit on the overhead removes exactly the strategies that exceed it. */
TEST(limit_on_the_overhead_loses_nothing_within_it)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fixture x;
        mp_lower_sets *sets = NULL;
        set_up(&x, seed, true);
        assert_int_equal(mp_lower_sets_all(&x.forward, 1 << MAX_NODES, &sets, NULL), MP_OK);
        for (int i = 0; i < x.oracle.n_budgets; i++) {
            mp_lower_set_strategies all = {0}, some = {0};
            const int64_t budget = x.oracle.budget[i];
            assert_int_equal(mp_lower_set_search(sets, budget, MP_TIME_CENTRIC, EXACT, INT64_MAX, true, &all, NULL), MP_OK);
            for (size_t k = 0; k < all.n; k++) {
                assert_int_equal(mp_lower_set_search(sets, budget, MP_TIME_CENTRIC, EXACT, all.ticks[k], true, &some, NULL),
                                 MP_OK);
                assert_int_equal(some.n, k + 1);
                assert_memory_equal(some.ticks, all.ticks, (k + 1) * sizeof *all.ticks);
                assert_memory_equal(some.kept_bytes, all.kept_bytes, (k + 1) * sizeof *all.kept_bytes);
                mp_lower_set_strategies_free(&some);
            }
            if (all.n && all.ticks[0] > 0)
                assert_int_equal(mp_lower_set_search(sets, budget, MP_TIME_CENTRIC, EXACT, all.ticks[0] - 1, true, &some, NULL),
                                 MP_OK);
            assert_int_equal(some.n, 0);
            mp_lower_set_strategies_free(&all);
        }
        mp_lower_sets_free(sets);
        tear_down(&x);
    }
}

/* 5.55e9 and 1.259e9 bytes were computed by an independent program in another language. The published program processes lower
 * sets in the order of their discovery and misses transitions; it needs 5.72e9 and 1.285e9. */
TEST(least_budgets_of_published_networks_are_those_of_a_sorted_family)
{
    static const struct {
        const char *graph;
        int n_sets;
        int64_t least_bytes;
    } cases[] = {{"kusumoto_unet", 331, 5545689088}, {"kusumoto_resnet50", 241, 1258815488}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mp_graph *graph = NULL;
        mp_dag *dag = NULL;
        mp_lower_sets *sets = NULL;
        int64_t least;
        const char *path = data_file("bench/graphs/%s.json", cases[i].graph);
        if (!path) skip();
        assert_int_equal(mp_graph_read(path, &graph, NULL), MP_OK);
        assert_int_equal(mp_dag_build(graph, &dag, NULL), MP_OK);
        int64_t *ticks = mp_alloc((size_t)dag->n_vertices, 2 * sizeof *ticks);
        mp_lower_set_weights(graph, dag, ticks, ticks + dag->n_vertices);
        const mp_lower_set_graph forward = {dag, dag->bytes, ticks, NULL};
        assert_int_equal(mp_lower_sets_all(&forward, 1024, &sets, NULL), MP_OK);
        assert_int_equal(sets->n, cases[i].n_sets);
        assert_int_equal(mp_lower_set_least_budget(sets, &least, NULL), MP_OK);
        assert_int_equal(least, cases[i].least_bytes);
        mp_lower_sets_free(sets);
        mp_free(ticks);
        mp_dag_free(dag);
        mp_graph_free(graph);
    }
}

/* The pruned family consists of lower sets. It never beats brute force, and coarse classes never beat exact ones. */
TEST(pruned_family_is_never_below_the_optimum)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fixture x;
        mp_lower_sets *sets = NULL;
        set_up(&x, seed, true);
        assert_int_equal(mp_lower_sets_pruned(&x.forward, 4, 40, &sets, NULL), MP_OK);
        for (int k = 1; k < sets->n; k++) /* every set is closed under predecessors */
            for (int v = 0; v < x.oracle.n; v++)
                for (int u = 0; u < x.oracle.n; u++)
                    if (x.oracle.edge[u][v] && mp_lower_set_has(sets, k, v)) assert_true(mp_lower_set_has(sets, k, u));
        for (int i = 0; i < x.oracle.n_budgets; i++) {
            const int64_t exact = overhead(sets, x.oracle.budget[i], MP_TIME_CENTRIC, EXACT, true);
            const int64_t coarse = overhead(sets, x.oracle.budget[i], MP_TIME_CENTRIC, 3, true);
            assert_int_equal(exact < 0, coarse < 0);
            if (exact < 0) continue;
            assert_true(x.oracle.least_overhead[i] >= 0 && exact >= x.oracle.least_overhead[i]);
            assert_true(coarse >= exact);
        }
        mp_lower_sets_free(sets);
        tear_down(&x);
    }
}

TEST(family_that_is_too_large_is_refused)
{
    fixture x;
    mp_lower_sets *sets = NULL;
    for (uint64_t seed = 1;; seed++) {
        set_up(&x, seed, true);
        if (x.oracle.n_lower_sets > 20) break;
        tear_down(&x);
    }
    assert_int_equal(mp_lower_sets_all(&x.forward, (int)x.oracle.n_lower_sets - 1, &sets, NULL), MP_LIMIT);
    assert_null(sets);
    assert_int_equal(mp_lower_sets_all(&x.forward, (int)x.oracle.n_lower_sets, &sets, NULL), MP_OK);
    mp_lower_sets_free(sets);
    tear_down(&x);
}

TEST(lower_sets_survive_every_allocation_failure)
{
    fixture x;
    set_up(&x, 7, true);
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_lower_sets *sets = NULL;
        mp_lower_set_strategies found = {0};
        int64_t least;
        mp_alloc_budget = k;
        st = mp_lower_sets_pruned(&x.forward, 3, 40, &sets, NULL);
        if (st == MP_OK) st = mp_lower_set_least_budget(sets, &least, NULL);
        if (st == MP_OK) st = mp_lower_set_search(sets, 10 * least, MP_TIME_CENTRIC, 64, INT64_MAX, true, &found, NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        mp_lower_set_strategies_free(&found);
        mp_lower_sets_free(sets);
        assert_int_equal(mp_alloc_live, live);
    }
    tear_down(&x);
}
