/* test_bound_layers.c - planner/bound on layered networks: never above the cheapest plan, and how near it comes. */
#include "tests/cases/bound_case.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"

TEST(bound_is_never_above_the_cheapest_plan_of_layers)
{
    int64_t extra[2] = {0}, bounded[2] = {0}; /* without and with the choice */
    for (uint64_t seed = 1; seed <= 80; seed++) {
        const bool choice = seed % 2;
        mp_graph *graph = layers_graph(seed, 2 + (int)(seed % 3), choice);
        int64_t least = bound_of(graph, INT64_MAX, false, 0).ticks;
        for (int k = 0; k < 5; k++) {
            int64_t ticks, budget = tiny_budget(graph, k);
            assert_true(oracle_exact(graph, budget, false, &ticks));
            mp_bound bound = bound_of(graph, budget, false, 3);
            if (ticks < 0) continue;
            if (bound.infeasible || bound.ticks > ticks)
                fail_msg("seed %llu, budget %lld: %lld ticks suffice, bound %lld", (unsigned long long)seed, (long long)budget,
                         (long long)ticks, (long long)bound.ticks);
            extra[choice] += ticks - least;
            bounded[choice] += bound.ticks - least;
        }
        mp_graph_free(graph);
    }
    /* measured: 2345 of 2977 ticks beyond one run of every node; with the choice 794 of 1611 */
    if (bounded[0] * 100 < extra[0] * 77 || bounded[1] * 100 < extra[1] * 48)
        fail_msg("%lld of %lld ticks, with the choice %lld of %lld", (long long)bounded[0], (long long)extra[0],
                 (long long)bounded[1], (long long)extra[1]);
}

/* Equal layers: exact but where a layer is best made a third time. */
TEST(bound_of_chains_is_exact_but_for_third_runs)
{
    for (int n = 1; n <= 8; n++) {
        mp_graph *graph;
        assert_int_equal(chain_graph(n, 10, 100, true, &graph, NULL), MP_OK);
        for (int64_t budget = 100; budget <= chain_keep_all_bytes(n, 10, 100); budget += 10) {
            for (int any = 0; any < 2; any++) {
                int64_t ticks, short_of = n < 7 || budget != 140 ? 0 : n - 6;
                assert_true(oracle_exact(graph, budget, any, &ticks));
                mp_bound bound = bound_of(graph, budget, any, 1);
                assert_int_equal(bound.infeasible, ticks < 0);
                if (ticks >= 0 && (bound.ticks > ticks || bound.ticks < ticks - short_of))
                    fail_msg("%d layers, budget %lld: %lld ticks, bound %lld", n, (long long)budget, (long long)ticks,
                             (long long)bound.ticks);
            }
        }
        mp_graph_free(graph);
    }
}
