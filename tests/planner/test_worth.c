/* test_worth.c - what more memory and faster copies are worth, and how much of another tier is enough, on graphs so small that
 * everything can be tried; and the three curves of a graph with copies. */
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "memplan/sweep.h"
#include "memplan/training.h"
#include "planner/solve/away.h"
#include "planner/solve/worth.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_graph.h"

typedef struct small {
    mp_graph *graph;
    int64_t floor_bytes, plain_floor, keep_all_bytes, least_ticks;
} small;

/* A graph with copies to a host that carries a part of what there is in a step. */
static small small_graph(uint64_t seed, int n_forward)
{
    small x = {.graph = random_graph(seed, n_forward, (mp_fuse)(seed % 3), false)};
    mp_step *steps = mp_alloc(x.graph->n_nodes, sizeof *steps);
    mp_timeline *timeline;
    int node;
    assert_int_equal(mp_timeline_build(x.graph, steps, mp_keep_all(x.graph, steps), &timeline, NULL), MP_OK);
    assert_int_equal(mp_floor(x.graph, &x.plain_floor, &node, NULL), MP_OK);
    x.keep_all_bytes = timeline->peak_bytes;
    x.least_ticks = timeline->ticks;
    const double rate = (double)timeline->peak_bytes / ((double)timeline->ticks * x.graph->tick_seconds);
    const mp_link link = {.name = "near", .out_bytes_per_second = rate, .in_bytes_per_second = rate};
    mp_timeline_free(timeline);
    mp_free(steps);
    assert_int_equal(mp_graph_offload(x.graph, &(mp_offload){.host = &link, .least_bytes = 1}, NULL, NULL), MP_OK);
    assert_int_equal(mp_floor(x.graph, &x.floor_bytes, &node, NULL), MP_OK);
    return x;
}

/* A GiB is more than all of these graphs need. */
TEST(with_all_the_memory_a_plan_takes_no_extra_time)
{
    int n = 0, n_extra = 0, n_whole = 0, n_tier = 0, n_links = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        small x = small_graph(seed, 6 + (int)(seed % 6));
        mp_answer answer = {0};
        mp_worth worth, again;
        const mp_request request = {.graph = x.graph,
                                    .budget_bytes = (x.floor_bytes + 2 * x.plain_floor + x.keep_all_bytes) / 4,
                                    .tier_bytes = {0, (x.keep_all_bytes - x.floor_bytes) / 4 + 1},
                                    .moves = 400};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        if (answer.plan) {
            const int64_t extra = answer.plan->ticks - x.least_ticks;
            assert_int_equal(mp_worth_of(&request, answer.plan, &worth, NULL), MP_OK);
            assert_int_equal(mp_worth_of(&request, answer.plan, &again, NULL), MP_OK);
            assert_memory_equal(&worth, &again, sizeof worth);
            assert_true(worth.device_ticks >= 0 && worth.device_ticks <= extra);
            assert_true(worth.tier_ticks[1] >= 0 && worth.tier_ticks[1] <= extra);
            assert_true(worth.link_ticks >= 0 && worth.link_ticks <= extra);
            n++;
            n_extra += extra > 0;
            n_whole += extra > 0 && worth.device_ticks == extra;
            n_tier += worth.tier_ticks[1] > 0;
            n_links += worth.link_ticks > 0;
        }
        mp_answer_free(&answer);
        mp_graph_free(x.graph);
    }
    printf("%d plans, %d with extra time, %d of it all, %d tiers, %d links\n", n, n_extra, n_whole, n_tier, n_links);
    assert_true(n_extra > 5 && n_whole > n_extra / 3 && n_tier > 0 && n_links > 0);
}

TEST(what_is_enough_of_a_tier_is_enough_and_nearly_the_least)
{
    int n = 0, n_least = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        small x = small_graph(seed, 3 + (int)(seed % 2));
        const int64_t budget = x.floor_bytes + (x.plain_floor - x.floor_bytes) / 2;
        int64_t bytes, floors[MP_MAX_TIERS], ticks;
        const mp_request request = {.graph = x.graph, .budget_bytes = budget, .tier_bytes = {0, 1}, .moves = 100};
        assert_int_equal(mp_tier_floors(x.graph, budget, request.tier_bytes, floors, NULL), MP_OK);
        if (x.plain_floor > budget && x.graph->n_nodes <= 18) {
            assert_int_equal(mp_tier_enough(&request, 1, floors[1] - 1, false, &bytes, NULL), MP_OK);
            if (bytes && oracle_exact_beside(x.graph, budget, bytes, true, &ticks)) {
                n++;
                assert_true(bytes >= floors[1]);
                if (ticks < 0) fail_msg("seed %llu: %lld bytes are not enough", (unsigned long long)seed, (long long)bytes);
                n_least += oracle_exact_beside(x.graph, budget, bytes - 1, true, &ticks) && ticks < 0;
            }
        }
        mp_graph_free(x.graph);
    }
    printf("%d budgets, %d of them the least\n", n, n_least);
    assert_true(n >= 8 && n_least > n / 3);
}

TEST(a_graph_with_copies_has_three_curves_and_both_is_the_lowest)
{
    static const char *const names[] = {"recompute only", "offload only", "both"};
    int n_less[2] = {0};
    for (uint64_t seed = 0; seed < 8; seed++) {
        small x = small_graph(seed, 10);
        mp_sweep found;
        const mp_sweep_request request = {.graph = x.graph, .n_budgets = 5, .moves = 200};
        assert_int_equal(mp_sweep_budgets(&request, &found, NULL), MP_OK);
        assert_int_equal(found.n_curves, 3);
        for (size_t k = 0; k < 3; k++) assert_string_equal(found.curves[k].solver, names[k]);
        for (size_t k = 0; k < 2; k++) {
            const mp_sweep_curve *one = &found.curves[k], *both = &found.curves[2];
            assert_true(both->smallest_bytes <= one->smallest_bytes);
            for (size_t i = 0; i < one->n; i++)
                for (size_t j = 0; j < both->n; j++) {
                    if (!one->points[i].feasible || both->points[j].budget_bytes != one->points[i].budget_bytes) continue;
                    assert_true(both->points[j].ticks <= one->points[i].ticks);
                    n_less[k] += both->points[j].ticks < one->points[i].ticks;
                }
        }
        for (size_t i = 0; i < found.curves[1].n; i++) assert_int_equal(found.curves[1].points[i].n_recomputed, 0);
        for (size_t b = 0; b < found.n_bounds; b++)
            for (size_t i = 0; i < found.curves[2].n; i++)
                if (found.curves[2].points[i].feasible &&
                    found.curves[2].points[i].budget_bytes == found.bounds[b].budget_bytes)
                    assert_true(found.bounds[b].ticks <= found.curves[2].points[i].ticks);
        mp_sweep_free(&found);
        mp_graph_free(x.graph);
    }
    assert_true(n_less[0] > 0 && n_less[1] > 0);
}
