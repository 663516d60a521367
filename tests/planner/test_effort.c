/* test_effort.c - more effort never gives a slower plan or a lower bound, a requested gap ends a search, and small graphs are
 * always searched thoroughly. */
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "planner/math/tuning.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 8, LAYERS = 45 };

/* From the least effort to the most. */
static const mp_effort ladder[] = {MP_EFFORT_QUICK, MP_EFFORT_NORMAL, MP_EFFORT_THOROUGH};

static mp_graph *a_graph(uint64_t seed)
{
    mp_graph *graph = random_graph(seed, LAYERS, (mp_fuse)(seed % 3), false);
    assert_true(graph->n_nodes > MP_EFFORT_NODES);
    return graph;
}

/* Returns a budget at one or two thirds of the way from the floor to the peak of keep-all. */
static int64_t a_budget(const mp_graph *graph, uint64_t seed)
{
    mp_answer all;
    const mp_request none = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "none"};
    assert_int_equal(mp_solve(&none, &all, NULL), MP_OK);
    const int64_t most = all.smallest->peak_bytes, floor = all.floor_bytes;
    mp_answer_free(&all);
    return floor + (most - floor) * (1 + (int64_t)(seed % 2)) / 3;
}

static mp_answer solve(const mp_request *request)
{
    mp_answer answer;
    mp_error err = {0};
    if (mp_solve(request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
    return answer;
}

TEST(more_effort_never_gives_less)
{
    int n_cheaper = 0, n_tighter = 0, n_feasible = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = a_graph(seed);
        mp_request request = {.graph = graph, .budget_bytes = a_budget(graph, seed), .moves = 200, .wants_bound = true};
        int64_t ticks = INT64_MAX, bound = 0;
        for (size_t k = 0; k < sizeof ladder / sizeof *ladder; k++) {
            request.effort = ladder[k];
            mp_answer answer = solve(&request);
            assert_int_equal(answer.effort, ladder[k]);
            if (ticks < INT64_MAX) assert_non_null(answer.plan);
            if (answer.plan) {
                assert_true(answer.plan->ticks <= ticks);
                assert_true(answer.bound.ticks >= bound);
                assert_true(answer.bound.ticks <= answer.plan->ticks || answer.plan->ticks == answer.plan->baseline_ticks);
                n_cheaper += k && answer.plan->ticks < ticks;
                n_tighter += k && answer.bound.ticks > bound;
                n_feasible++;
                ticks = answer.plan->ticks;
                bound = answer.bound.ticks;
            }
            mp_answer_free(&answer);
        }
        mp_graph_free(graph);
    }
    assert_true(n_feasible > SEEDS);
    assert_true(n_cheaper > 0);
    assert_true(n_tighter > 0);
}

static mp_status count(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data, mp_error *err)
{
    (void)steps, (void)n, (void)peak_bytes, (void)ticks, (void)err;
    ++*(int *)data;
    return MP_OK;
}

TEST(a_gap_that_is_asked_for_ends_the_search)
{
    int n_sooner = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = a_graph(seed);
        int n_all = 0, n = 0;
        mp_request request = {.graph = graph,
                              .budget_bytes = a_budget(graph, seed),
                              .moves = 200,
                              .effort = MP_EFFORT_THOROUGH,
                              .wants_bound = true,
                              .on_offer = count,
                              .on_offer_data = &n_all};
        mp_answer best = solve(&request);
        request.gap = 0.5;
        request.on_offer_data = &n;
        mp_answer near = solve(&request);
        if (best.plan) {
            assert_non_null(near.plan);
            assert_true(near.plan->ticks >= best.plan->ticks);
            assert_true(n <= n_all);
            n_sooner += n < n_all;
            if (n < n_all) assert_true(near.plan->ticks - near.bound.ticks <= near.plan->baseline_ticks / 2);
        }
        mp_answer_free(&best);
        mp_answer_free(&near);
        mp_graph_free(graph);
    }
    assert_true(n_sooner > 0);
}

TEST(small_graphs_are_searched_thoroughly)
{
    mp_graph *graph = random_graph(3, 8, MP_FUSE_NONE, false);
    const mp_request request = {
        .graph = graph, .budget_bytes = a_budget(graph, 0), .effort = MP_EFFORT_QUICK, .wants_bound = true};
    assert_true(graph->n_nodes <= MP_EFFORT_NODES);
    mp_answer answer = solve(&request);
    assert_int_equal(answer.effort, MP_EFFORT_THOROUGH);
    mp_answer_free(&answer);
    mp_graph_free(graph);
}

TEST(efforts_have_names)
{
    for (int k = 0; k < MP_N_EFFORTS; k++) assert_int_equal(mp_effort_find(mp_effort_name((mp_effort)k)), k);
    assert_int_equal(mp_effort_find("lazy"), -1);
}
