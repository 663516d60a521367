/* test_bound_overlap.c - planner/bound: overlapping intervals bounded together, and the search over the tensors held between
 * them. */
#include "planner/bound/overlap/bound_overlap.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_graph.h"

/* The shares of a run must add up to the whole run in every stretch between boundaries. A pair of boundaries gets no share if
 * the run may be a first run. */
TEST(runs_are_shared_out)
{
    enum { N = 4, PAIRS = N * (N + 1) / 2 };
    int n_shared = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        random_source random = {seed};
        int64_t ticks[N], run[PAIRS];
        mp_bound_pair pairs[PAIRS];
        mp_bound_interval interval = {.scale_num = 4, .scale_den = 1};
        mp_bound_overlap o = {.x = &interval, .n = N, .n_nodes = 1, .pairs = pairs, .ticks = ticks, .run = run};
        for (int i = 0; i < N; i++) ticks[i] = i && ticks[i - 1] ? 25 : random_chance(&random, 50) ? 25 : 0;
        for (int i = 0; i < N; i++)
            for (int j = i + 1; j <= N; j++)
                if (j == i + 1 || random_chance(&random, 60)) {
                    pairs[o.n_pairs] = (mp_bound_pair){i, j};
                    run[o.n_pairs++] = random_below(&random, seed % 2 ? 120 : 30);
                }
        mp_bound_overlap_share_out(&o, 0);
        for (int k = 0; k < N; k++) {
            int64_t sum = 0;
            for (int p = 0; p < o.n_pairs; p++) {
                const bool is_longer = pairs[p].to > pairs[p].from + 1;
                if (is_longer && !ticks[pairs[p].from]) assert_int_equal(run[p], 0);
                if (is_longer) assert_true(run[p] >= 0);
                if (pairs[p].from <= k && k < pairs[p].to) sum += run[p];
                n_shared += is_longer && run[p] > 0;
            }
            assert_int_equal(sum, 4 * ticks[k]);
        }
    }
    assert_true(n_shared > 500);
}

/* Compares the best value of items that fit in the free bytes of a boundary with all sets of items; some decisions are already
 * fixed. */
TEST(rooms_are_filled_best)
{
    enum { N = 9 };
    int n_settled = 0, n_full = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        random_source random = {seed};
        mp_bound_overlap o;
        mp_bound_interval *interval;
        mp_precedence *order;
        mp_graph *graph = layers_graph(seed, 2, false);
        int nodes[1] = {0};
        while (graph->nodes[nodes[0]].phase == MP_PHASE_FORWARD) nodes[0]++;
        assert_int_equal(mp_precedence_new(graph, true, &order, NULL), MP_OK);
        assert_int_equal(mp_bound_interval_new(order, 100000, &interval, NULL), MP_OK);
        assert_int_equal(mp_bound_overlap_init(&o, interval, nodes, 1, &(mp_bound_options){.effort = 1}, NULL), MP_OK);
        assert_int_equal(mp_bound_overlap_add(&o, (mp_bound_pair){0, 1}, NULL), MP_OK);
        assert_int_equal(mp_bound_overlap_reserve(&o, NULL), MP_OK);
        const int n = (int)o.n_storages < N ? (int)o.n_storages : N;
        for (size_t s = 0; s < o.n_storages; s++) o.bytes[s] = 0;
        for (int s = 0; s < n; s++) {
            o.bytes[s] = 1 + random_below(&random, 20);
            o.live[s] = random_below(&random, 40);
            o.decision[s] = random_chance(&random, 15)   ? MP_BOUND_LIVE
                            : random_chance(&random, 15) ? MP_BOUND_NOT_LIVE
                                                         : MP_BOUND_OPEN;
            n_settled += o.decision[s] != MP_BOUND_OPEN;
        }
        o.free_bytes[0] = random_below(&random, 80);
        int64_t most = -1;
        for (int set = 0; set < 1 << n; set++) {
            int64_t bytes = 0, sum = 0;
            bool allowed = true;
            for (int s = 0; s < n; s++) {
                const bool held = set >> s & 1;
                allowed = allowed && o.decision[s] != (held ? MP_BOUND_NOT_LIVE : MP_BOUND_LIVE);
                bytes += held ? o.bytes[s] : 0;
                sum += held ? o.live[s] : 0;
            }
            if (allowed && bytes <= o.free_bytes[0] && sum > most) most = sum;
        }
        const int64_t value = mp_bound_overlap_value(&o);
        n_full += most < 0;
        if (most < 0)
            assert_true(value == INT64_MAX);
        else
            assert_int_equal(o.earned[0], most);
        mp_bound_overlap_clear(&o);
        mp_bound_interval_free(interval);
        mp_precedence_free(order);
        mp_graph_free(graph);
    }
    assert_true(n_settled > 300 && n_full > 5);
}

/* More items than sets can be enumerated, all worth their bytes: the certified value must be close to the optimum, and not
 * below it. */
TEST(large_rooms_are_filled_nearly_best)
{
    enum { LAYERS = 40, ROOM = 1001 };
    mp_bound_overlap o;
    mp_bound_interval *interval;
    mp_precedence *order;
    mp_graph *graph;
    int node = 0;
    assert_int_equal(chain_graph(LAYERS, 10, 0, true, &graph, NULL), MP_OK);
    while (graph->nodes[node].phase == MP_PHASE_FORWARD) node++;
    assert_int_equal(mp_precedence_new(graph, true, &order, NULL), MP_OK);
    assert_int_equal(mp_bound_interval_new(order, 100000, &interval, NULL), MP_OK);
    assert_int_equal(mp_bound_overlap_init(&o, interval, &node, 1, &(mp_bound_options){.effort = 1}, NULL), MP_OK);
    assert_int_equal(mp_bound_overlap_add(&o, (mp_bound_pair){0, 1}, NULL), MP_OK);
    assert_int_equal(mp_bound_overlap_reserve(&o, NULL), MP_OK);
    for (int s = 0; s < LAYERS; s++)
        o.live[s] = o.bytes[s] = 2 * (20 + s % 7); /* even sizes: an odd number of free bytes is never filled exactly */
    for (int s = LAYERS; s < (int)o.n_storages; s++) o.bytes[s] = 0;
    o.free_bytes[0] = ROOM;
    mp_bound_overlap_value(&o);
    assert_true(o.earned[0] >= ROOM - 1 && o.earned[0] <= ROOM + 1);
    mp_bound_overlap_clear(&o);
    mp_bound_interval_free(interval);
    mp_precedence_free(order);
    mp_graph_free(graph);
}

/* Returns the ticks beyond first runs, proved by linear programmes between all possible boundary nodes; `searched`: with a
 * search over the tensors held there. Fails if this exceeds the cheapest plan. */
static int64_t overlap_alone(const mp_graph *graph, int64_t budget, int64_t extra, bool searched)
{
    int64_t found = 0, work_left = INT64_C(1) << 40;
    int nodes[64], n = 0;
    bool solved;
    mp_precedence *order;
    mp_bound_interval *interval;
    mp_bound_overlap o = {0};
    mp_bound_relax *relax = NULL;
    const mp_bound_options options = {.effort = 1};
    assert_int_equal(mp_precedence_new(graph, true, &order, NULL), MP_OK);
    assert_int_equal(mp_bound_interval_new(order, budget, &interval, NULL), MP_OK);
    for (int i = 0; i < (int)graph->n_nodes; i++)
        if (graph->nodes[i].phase != MP_PHASE_FORWARD) nodes[n++] = i;
    if (searched) {
        assert_int_equal(mp_bound_tree(interval, nodes, n, &options, work_left, &found, NULL), MP_OK);
    } else {
        assert_int_equal(mp_bound_overlap_init(&o, interval, nodes, n, &options, NULL), MP_OK);
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j <= n; j++) assert_int_equal(mp_bound_overlap_add(&o, (mp_bound_pair){i, j}, NULL), MP_OK);
        assert_int_equal(mp_bound_relax_renew(&o, &relax, &work_left, &solved, NULL), MP_OK);
        assert_true(solved);
        const int64_t value = mp_bound_overlap_value(&o);
        found = value > 0 ? mp_bound_interval_ticks(interval, value) : 0;
    }
    if (found > extra)
        fail_msg("%s, budget %lld: %lld ticks suffice, bound %lld", graph->name, (long long)budget, (long long)extra,
                 (long long)found);
    mp_bound_relax_free(relax);
    mp_bound_overlap_clear(&o);
    mp_bound_interval_free(interval);
    mp_precedence_free(order);
    return found;
}

/* Tests this stage alone, because other stages could hide an error in its prices. */
TEST(overlapping_intervals_hold)
{
    int64_t sum_ticks = 0, sum_overlap = 0, sum_searched = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        mp_graph *graph = layers_graph(seed, 2 + (int)(seed % 3), seed % 3 == 0);
        const int64_t least = bound_of(graph, INT64_MAX, false, 0).ticks;
        for (int k = 0; k < 4; k++) {
            const int64_t budget = tiny_budget(graph, k);
            int64_t ticks;
            if (!oracle_exact(graph, budget, false, &ticks) || ticks < 0) continue;
            sum_ticks += ticks - least;
            sum_overlap += overlap_alone(graph, budget, ticks - least, false);
            sum_searched += overlap_alone(graph, budget, ticks - least, true);
        }
        mp_graph_free(graph);
    }
    /* measured: 1209 and 1455 of 2806 ticks beyond one run of every node, at budgets from the floor on */
    if (sum_overlap < 1200 || sum_searched < 1445 || sum_ticks != 2806)
        fail_msg("%lld, searched %lld of %lld ticks", (long long)sum_overlap, (long long)sum_searched, (long long)sum_ticks);
}

/* On chains the stage is often exact, so a run counted in two intervals would be noticed. */
TEST(overlapping_intervals_of_chains_hold)
{
    int n_cases = 0, n_exact = 0;
    for (int n = 2; n <= 8; n++) {
        mp_graph *graph;
        assert_int_equal(chain_graph(n, 10, 0, true, &graph, NULL), MP_OK);
        const int64_t least = bound_of(graph, INT64_MAX, false, 0).ticks;
        for (int64_t budget = 30; budget < chain_keep_all_bytes(n, 10, 0); budget += 10) {
            int64_t ticks;
            assert_true(oracle_exact(graph, budget, false, &ticks));
            if (ticks < 0) continue;
            n_cases++;
            n_exact += overlap_alone(graph, budget, ticks - least, false) == ticks - least;
        }
        mp_graph_free(graph);
    }
    /* measured: 20 of 21 */
    if (n_exact < 20) fail_msg("%d of %d", n_exact, n_cases);
}
