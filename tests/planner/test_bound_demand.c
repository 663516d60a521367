/* test_bound_demand.c - planner/bound_demand against the cheapest plans of tiny graphs, and its parts against hand-computed
 * results. */
#include "estimator/base/memory.h"
#include "planner/bound/bound_demand.h"
#include "planner/bound/bound_states.h"
#include "planner/bound/interval/bound_chain.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"

static const mp_bound_options plain = {.effort = 1};

/* Returns the bound of the best chain of intervals up to a node. */
static int64_t chain_until(const mp_precedence *order, int64_t budget, int node)
{
    mp_bound_chain *chain;
    assert_int_equal(mp_bound_chain_new(order, budget, &plain, node, &chain, NULL), MP_OK);
    const int64_t ticks = chain->first >= 0 && !chain->infeasible ? chain->rest[chain->first] : 0;
    mp_bound_chain_free(chain);
    return ticks;
}

/* Returns the ticks proved beyond first runs, starting from a bound of `least`. `prefixes`: also uses the bounds of chains for
 * the part before. */
static int64_t searched(const mp_graph *graph, int64_t budget, bool any_order, bool prefixes, int64_t least)
{
    enum { NARROWS = 3 };
    mp_precedence *order;
    mp_bound_demand *d;
    int nodes[NARROWS];
    int64_t ticks = least;
    assert_int_equal(mp_precedence_new(graph, !any_order, &order, NULL), MP_OK);
    assert_int_equal(mp_bound_demand_new(order, budget, &plain, &d, NULL), MP_OK);
    if (d) {
        for (int k = 0, n = prefixes ? mp_bound_demand_narrows(d, nodes, NARROWS) : 0; k < n; k++)
            mp_bound_demand_before(d, nodes[k], chain_until(order, budget, nodes[k]));
        mp_bound_found found = {0, -1};
        if (prefixes) assert_int_equal(mp_bound_demand_prefixes(d, &ticks, &found, NULL), MP_OK);
        assert_int_equal(mp_bound_demand_search(d, &ticks, &found, NULL), MP_OK);
        assert_true(ticks >= found.ticks);
    }
    assert_true(ticks >= least);
    mp_bound_demand_free(d);
    mp_precedence_free(order);
    return ticks;
}

TEST(bound_is_never_above_the_cheapest_plan)
{
    int n_dear = 0, n_tight = 0, n_better = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *graph = seed % 2 ? tiny_graph(seed) : layers_graph(seed, 2 + (int)(seed / 2 % 3), seed % 4 == 0);
        const int64_t once = bound_of(graph, INT64_MAX, true, 0).ticks;
        for (int k = 0; k < 5; k++) {
            const int64_t budget = tiny_budget(graph, k);
            for (int any = 0; any < 2; any++) {
                int64_t ticks;
                const mp_bound bound = bound_of(graph, budget, any, 1);
                assert_true(oracle_exact(graph, budget, any, &ticks));
                if (ticks < 0) continue;
                const int64_t alone = once + searched(graph, budget, any, seed % 3, 0);
                const int64_t more = once + searched(graph, budget, any, true, bound.ticks - once);
                if (alone > ticks || more > ticks)
                    fail_msg("seed %llu, budget %lld, any order %d: %lld ticks suffice, bounds %lld, %lld",
                             (unsigned long long)seed, (long long)budget, any, (long long)ticks, (long long)alone,
                             (long long)more);
                n_dear += ticks > once;
                n_tight += ticks > once && alone == ticks;
                n_better += more > bound.ticks;
            }
        }
        mp_graph_free(graph);
    }
    /* measured: 262 of 1458 cases are tight without any other bound, 37 are better than a bound of little effort */
    if (n_tight < 255 || n_better < 34) fail_msg("%d of %d tight, %d better", n_tight, n_dear, n_better);
}

/* Layers separated by boundaries with little memory. The sum of the ticks before each narrow boundary must not exceed the
 * cheapest plan, and is often most of it. */
TEST(what_comes_before_narrow_boundaries_adds_up)
{
    int n_found = 0, n_plans = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = layers_graph(seed, 4 + (int)(seed % 2), seed % 3 == 0);
        const int64_t once = bound_of(graph, INT64_MAX, true, 0).ticks;
        for (int k = 0; k < 3; k++) {
            mp_precedence *order;
            mp_bound_demand *d;
            mp_bound_found found = {0, -1};
            int64_t ticks, proved = 0;
            const int64_t budget = tiny_budget(graph, k);
            if (!oracle_exact(graph, budget, false, &ticks) || ticks < 0) continue;
            assert_int_equal(mp_precedence_new(graph, true, &order, NULL), MP_OK);
            assert_int_equal(mp_bound_demand_new(order, budget, &plain, &d, NULL), MP_OK);
            if (d) assert_int_equal(mp_bound_demand_prefixes(d, &proved, &found, NULL), MP_OK);
            assert_int_equal(proved, found.ticks);
            if (proved > ticks - once)
                fail_msg("seed %llu, budget %lld: %lld ticks suffice, bound %lld", (unsigned long long)seed, (long long)budget,
                         (long long)(ticks - once), (long long)proved);
            n_plans++;
            n_found += proved > 0;
            mp_bound_demand_free(d);
            mp_precedence_free(order);
        }
        mp_graph_free(graph);
    }
    if (n_found < 24) fail_msg("%d of %d", n_found, n_plans); /* measured: 26 of 162 */
}

/* Equal layers, few enough that every set is visited: the result is exact. */
TEST(bound_of_chains_is_exact)
{
    for (int n = 4; n <= 8; n++) {
        mp_graph *graph;
        int64_t ticks;
        assert_int_equal(chain_graph(n, 10, 100, true, &graph, NULL), MP_OK);
        const int64_t once = bound_of(graph, INT64_MAX, false, 0).ticks;
        for (int64_t budget = 140; budget < chain_keep_all_bytes(n, 10, 100); budget += 10) {
            assert_true(oracle_exact(graph, budget, false, &ticks));
            assert_int_equal(once + searched(graph, budget, false, true, 0), ticks);
        }
        mp_graph_free(graph);
    }
}

static int add_storage(mp_graph *graph, mp_kind kind, int64_t bytes)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = bytes;
    return (int)graph->n_storages - 1;
}

static void add_node(mp_graph *graph, mp_phase phase, int ticks, const int *reads, size_t n_reads, const int *writes,
                     size_t n_writes)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->phase = phase;
    node->n_alternatives = 1;
    node->alternatives = mp_pool_alloc(graph->pool, 1, sizeof *node->alternatives);
    node->alternatives[0] = (mp_alternative){.ticks = ticks,
                                             .reads = mp_graph_list(graph, reads, n_reads),
                                             .n_reads = n_reads,
                                             .writes = mp_graph_list(graph, writes, n_writes),
                                             .n_writes = n_writes};
}

/* If two tensors of one node are needed again, one run of the node restores both. */
TEST(two_outputs_of_a_node_take_one_run)
{
    mp_graph *graph;
    int64_t ticks;
    assert_int_equal(mp_graph_new("two", &graph, NULL), MP_OK);
    const int in = add_storage(graph, MP_KIND_INPUT, 0);
    const int x = add_storage(graph, MP_KIND_ACTIVATION, 10), y = add_storage(graph, MP_KIND_ACTIVATION, 10);
    const int z = add_storage(graph, MP_KIND_ACTIVATION, 1), g = add_storage(graph, MP_KIND_ACTIVATION_GRADIENT, 1);
    const int h = add_storage(graph, MP_KIND_ACTIVATION_GRADIENT, 1),
              wide = add_storage(graph, MP_KIND_ACTIVATION_GRADIENT, 20);
    const int last = add_storage(graph, MP_KIND_ACTIVATION_GRADIENT, 1);
    add_node(graph, MP_PHASE_FORWARD, 5, &in, 1, (int[]){x, y}, 2);
    add_node(graph, MP_PHASE_FORWARD, 1, &x, 1, &z, 1);
    add_node(graph, MP_PHASE_LOSS, 1, &z, 1, &g, 1);
    add_node(graph, MP_PHASE_BACKWARD, 1, &g, 1, (int[]){h, wide}, 2);
    add_node(graph, MP_PHASE_BACKWARD, 1, (int[]){h, x, y}, 3, &last, 1);
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    assert_true(oracle_exact(graph, 30, false, &ticks));
    assert_int_equal(ticks, 9 + 5);
    assert_int_equal(searched(graph, 30, false, false, 0), 5);
    mp_graph_free(graph);
}

TEST(labels_keep_the_least_and_drop_what_is_dominated)
{
    mp_bound_states t;
    assert_int_equal(mp_bound_states_init(&t, 4, 2, NULL), MP_OK);
    const uint64_t a[] = {1, 2}, b[] = {1, 3}, c[] = {0, 3}, e[] = {5, 0}, more[] = {7, 7};
    assert_true(mp_bound_states_put(&t, a, 9, 1));
    assert_true(mp_bound_states_put(&t, a, 7, 2));
    assert_true(mp_bound_states_put(&t, a, 8, 3));
    assert_int_equal(t.n, 1);
    assert_int_equal(t.ticks[0], 7);
    assert_int_equal(t.used[0], 2);
    assert_true(mp_bound_states_put(&t, b, 7, 0)); /* requires more than a, for the same ticks */
    assert_true(mp_bound_states_put(&t, c, 6, 0));
    assert_true(mp_bound_states_put(&t, e, 9, 0));
    assert_false(mp_bound_states_put(&t, more, 1, 0));
    assert_true(mp_bound_states_put(&t, e, 8, 0)); /* already in the table */
    t.ticks[2] = INT64_MAX;
    mp_bound_states_drop_dominated(&t);
    assert_int_equal(t.n, 2);
    assert_memory_equal(mp_bound_states_set(&t, 0), a, sizeof a);
    assert_memory_equal(mp_bound_states_set(&t, 1), e, sizeof e);
    assert_int_equal(t.ticks[0], 7);
    assert_int_equal(t.ticks[1], 8);
    mp_bound_states_empty(&t);
    assert_true(mp_bound_states_put(&t, more, 1, 0));
    mp_bound_states_clear(&t);
}

/* A chain in which no activation fits at a boundary. To restore the output of layer l there, layers 0 to l must run. */
TEST(what_has_no_room_is_made_from_the_start)
{
    enum { LAYERS = 6 };
    mp_graph *graph;
    mp_precedence *order;
    mp_bound_interval *x;
    mp_bound_ranks ranks;
    mp_bound_reruns m;
    assert_int_equal(chain_graph(LAYERS, 10, 100, true, &graph, NULL), MP_OK);
    assert_int_equal(mp_precedence_new(graph, true, &order, NULL), MP_OK);
    int last = -1;
    for (int v = 0; v < (int)graph->n_nodes; v++)
        if (graph->nodes[v].phase == MP_PHASE_LOSS || graph->nodes[v].phase == MP_PHASE_BACKWARD) {
            last = v;
            break;
        }
    for (int64_t budget = 100; budget < 400; budget += 10) {
        assert_int_equal(mp_bound_interval_new(order, budget, &x, NULL), MP_OK);
        assert_int_equal(mp_bound_ranks_init(&ranks, x, NULL), MP_OK);
        assert_int_equal(mp_bound_reruns_init(&m, x, &ranks, &last, 1, NULL), MP_OK);
        mp_bound_interval_start(x, last);
        int64_t before = 0;
        for (int r = 0; r < ranks.n; r++) {
            uint64_t set = UINT64_C(1) << r, nodes = 0;
            const int s = ranks.storage[r];
            mp_bound_reruns_add(&m, 0, &set, &nodes);
            const int64_t ticks = mp_bound_reruns_ticks(&m, &nodes);
            if (x->bytes[s] <= x->free_bytes)
                assert_int_equal(ticks, 0);
            else
                assert_int_equal(ticks, before + order->ticks[graph->producer[s]]);
            before = ticks;
        }
        mp_bound_reruns_clear(&m);
        mp_bound_ranks_clear(&ranks);
        mp_bound_interval_free(x);
    }
    mp_precedence_free(order);
    mp_graph_free(graph);
}

TEST(search_survives_every_allocation_failure)
{
    mp_graph *graph = layers_graph(3, 4, false);
    mp_precedence *order;
    const long live_before = mp_alloc_live;
    assert_int_equal(mp_precedence_new(graph, true, &order, NULL), MP_OK);
    const int64_t budget = tiny_budget(graph, 1);
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        int64_t ticks = 0;
        bool promising;
        mp_bound_demand *d = NULL;
        mp_alloc_budget = k;
        st = mp_bound_demand_new(order, budget, &plain, &d, NULL);
        if (st == MP_OK && d) st = mp_bound_demand_is_promising(d, 0, &promising, NULL);
        if (st == MP_OK && d) st = mp_bound_demand_prefixes(d, &ticks, &(mp_bound_found){0}, NULL);
        if (st == MP_OK && d) st = mp_bound_demand_search(d, &ticks, &(mp_bound_found){0}, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        mp_bound_demand_free(d);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_precedence_free(order);
    assert_int_equal(mp_alloc_live, live_before);
    mp_graph_free(graph);
}
