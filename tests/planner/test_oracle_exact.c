/* test_oracle_exact.c - the exact search that serves as oracle for bounds and searchers, against the timeline and the checker.
 */
#include "memplan/check.h"
#include "memplan/plan.h"
#include "memplan/timeline.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_graph.h"

/* The oracle's plans pass the checker and fit. With exactly their peak as the budget, their ticks are equal. Fewer permitted
 * orders or a smaller budget never reduce the ticks. No random schedule with the same peak has fewer ticks. */
TEST(oracle_agrees_with_the_timeline)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = tiny_graph(seed);
        mp_timeline *tl;
        for (int k = 0; k < 5; k++) {
            int64_t budget = tiny_budget(graph, k), peak_bytes, before = 0;
            for (int any = 1; any >= 0; any--) {
                int64_t ticks, again;
                mp_step *steps;
                mp_plan *plan;
                size_t n;
                assert_true(oracle_exact_plan(graph, budget, any, &ticks, &steps, &n, &peak_bytes));
                if (ticks < 0) break;
                assert_true(ticks >= before);
                before = ticks;
                assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
                assert_true(tl->peak_bytes <= peak_bytes && peak_bytes <= budget);
                assert_int_equal(tl->ticks, ticks);
                assert_true(oracle_exact(graph, tl->peak_bytes, any, &again));
                assert_int_equal(again, ticks);
                assert_int_equal(mp_plan_new(graph, "oracle", steps, n, &plan, NULL), MP_OK);
                assert_int_equal(mp_plan_check(graph, plan, NULL), MP_OK);
                mp_plan_free(plan);
                mp_timeline_free(tl);
                free(steps);
            }
        }
        for (uint64_t k = 0; k < 10; k++) {
            size_t n;
            int64_t ticks;
            mp_step *steps = random_schedule(graph, seed + 1000 * k, (int)k, &n);
            assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
            assert_true(oracle_exact(graph, tl->peak_bytes, true, &ticks));
            if (ticks < 0 || ticks > tl->ticks)
                fail_msg("seed %llu, schedule %llu", (unsigned long long)seed, (unsigned long long)k);
            mp_timeline_free(tl);
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
}
