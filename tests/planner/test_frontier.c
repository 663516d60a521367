/* test_frontier.c - the frontier of schedules against a plain list of all that were added; the order of the list kept and
 * restored. */
#include "estimator/base/memory.h"
#include "planner/order/order.h"
#include "planner/studies/frontier.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { ADDED = 60 };

TEST(a_frontier_answers_as_a_list_of_all_would)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        random_source random = {seed};
        mp_frontier frontier = {0};
        int64_t peak[ADDED], ticks[ADDED];
        for (int k = 0; k < ADDED; k++) {
            peak[k] = random_below(&random, 40);
            ticks[k] = random_below(&random, 40);
            const mp_step step = {.node = k};
            assert_int_equal(mp_frontier_add(&frontier, &step, 1, peak[k], ticks[k], NULL), MP_OK);
            for (int64_t budget = -1; budget <= 40; budget++) {
                const mp_frontier_point *p = mp_frontier_within(&frontier, budget);
                int64_t least = INT64_MAX;
                for (int i = 0; i <= k; i++)
                    if (peak[i] <= budget && ticks[i] < least) least = ticks[i];
                assert_int_equal(p ? p->ticks : INT64_MAX, least);
                if (!p) continue;
                assert_int_equal(p->n_steps, 1);
                assert_int_equal(peak[p->steps[0].node], p->peak_bytes);
                assert_int_equal(ticks[p->steps[0].node], p->ticks);
            }
        }
        for (size_t k = 1; k < frontier.n; k++) {
            assert_true(frontier.points[k - 1].peak_bytes < frontier.points[k].peak_bytes);
            assert_true(frontier.points[k - 1].ticks > frontier.points[k].ticks);
        }
        mp_frontier_free(&frontier);
    }
    assert_int_equal(mp_alloc_live, 0);
}

/* By the definition: no node of a group has its first run before that of one earlier in the list. */
static bool keeps_order(const mp_graph *graph, const mp_step *steps, size_t n, bool forward)
{
    int last = -1;
    for (size_t t = 0; t < n; t++) {
        const mp_phase phase = graph->nodes[steps[t].node].phase;
        bool first = true;
        for (size_t u = 0; u < t; u++) first = first && steps[u].node != steps[t].node;
        if (!first || phase == MP_PHASE_UPDATE || (phase == MP_PHASE_FORWARD) != forward) continue;
        if (steps[t].node < last) return false;
        last = steps[t].node;
    }
    return true;
}

TEST(the_order_is_restored_by_more_runs)
{
    int n_broken = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 15), (mp_fuse)(seed % 3), seed % 5 == 0);
        size_t n, n_restored;
        mp_step *steps = random_schedule(graph, seed, 6, &n), *restored;
        mp_timeline *timeline;
        mp_error err = {0};
        bool is_kept;
        const bool forward = keeps_order(graph, steps, n, true), backward = keeps_order(graph, steps, n, false);
        assert_int_equal(mp_order_is_kept(graph, steps, n, &is_kept, NULL), MP_OK);
        assert_int_equal(is_kept, forward && backward);
        assert_int_equal(mp_order_restore(graph, steps, n, &restored, &n_restored, NULL), MP_OK);
        assert_true(keeps_order(graph, restored, n_restored, true));
        assert_int_equal(keeps_order(graph, restored, n_restored, false), backward);
        if (forward) assert_int_equal(n_restored, n);
        if (mp_timeline_build(graph, restored, n_restored, &timeline, &err) != MP_OK) fail_msg("%s", err.message);
        n_broken += !forward;
        mp_timeline_free(timeline);
        mp_free(steps);
        mp_free(restored);
        mp_graph_free(graph);
    }
    if (n_broken <= 20) fail_msg("only %d orders to restore", n_broken);
    assert_int_equal(mp_alloc_live, 0);
}
