/* test_auto.c - the searcher auto against an exact search over all schedules: the plans that it finds, and its bounds. */
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "tests/cases/test.h"
#include "tests/oracles/auto_tally.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 150, SEEDS_IN_ORDER = 60, BUDGETS = 5 };

typedef struct score {
    long feasible, optimal, missed, proved;
} score;

static void judge(const mp_graph *graph, uint64_t seed, int64_t budget, bool keep_order, score *s)
{
    int64_t best;
    mp_answer answer;
    mp_error err = {0};
    const mp_request request = {
        .graph = graph, .budget_bytes = budget, .moves = 1000, .wants_bound = true, .keep_order = keep_order};
    if (!oracle_exact(graph, budget, !keep_order, &best)) return; /* too many states for the exact search */
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
    if (best < 0) {
        assert_null(answer.plan);
    } else {
        assert_false(answer.bound.infeasible);
        if (answer.bound.ticks > best)
            fail_msg("seed %llu: a bound of %lld over an optimum of %lld", (unsigned long long)seed,
                     (long long)answer.bound.ticks, (long long)best);
        s->feasible++;
        if (!answer.plan) print_message("seed %llu, budget %lld: missed\n", (unsigned long long)seed, (long long)budget);
        s->missed += !answer.plan;
        s->optimal += answer.plan && answer.plan->ticks == best;
        s->proved += answer.plan && answer.plan->ticks == answer.bound.ticks;
        if (answer.plan && !keep_order) assert_true(answer.plan->ticks >= best);
    }
    mp_answer_free(&answer);
}

static score run(int n_seeds, bool keep_order)
{
    score s = {0};
    for (uint64_t seed = 1; seed <= (uint64_t)n_seeds; seed++) {
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 7), (mp_fuse)(seed % 3), false);
        int64_t floor;
        int node;
        mp_answer all;
        const mp_request none = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "none"};
        assert_int_equal(mp_solve(&none, &all, NULL), MP_OK);
        assert_int_equal(mp_floor(graph, &floor, &node, NULL), MP_OK);
        const int64_t most = all.smallest->peak_bytes;
        for (int k = 0; k < BUDGETS; k++) judge(graph, seed, floor + (most - 1 - floor) * k / (BUDGETS - 1), keep_order, &s);
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    print_message("%ld feasible: %ld optimal, %ld of them proved, %ld missed\n", s.feasible, s.optimal, s.proved, s.missed);
    return s;
}

TEST(it_is_optimal_on_small_graphs)
{
    const int n_seeds = oracle_graphs(SEEDS); /* 300 graphs take a minute */
    const score s = run(n_seeds, false);
    assert_true(s.feasible > (long)n_seeds * BUDGETS / 3);
    assert_int_equal(s.missed, 0);
    assert_true(s.optimal * 100 >= s.feasible * 99);
}

TEST(it_is_optimal_in_the_given_order)
{
    const score s = run(SEEDS_IN_ORDER, true);
    assert_true(s.feasible > SEEDS_IN_ORDER * BUDGETS / 3);
    assert_int_equal(s.missed, 0);
    assert_true(s.optimal * 100 >= s.feasible * 99);
}

/* With a time limit, parts of the search stop at a share of the limit, and annealing cools by the clock. If the limit is not
 * reached, the results must be the same as without a limit. */
TEST(a_limit_that_is_not_reached_changes_nothing)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        mp_graph *graph = random_graph(seed, 40, (mp_fuse)(seed % 3), false);
        mp_answer all, answers[2];
        int64_t floor;
        int node;
        const mp_request none = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "none"};
        assert_int_equal(mp_solve(&none, &all, NULL), MP_OK);
        assert_int_equal(mp_floor(graph, &floor, &node, NULL), MP_OK);
        for (int k = 0; k < 2; k++) {
            const mp_request request = {.graph = graph,
                                        .budget_bytes = floor + (all.plan->peak_bytes - floor) / 2,
                                        .moves = 500,
                                        .wants_bound = true,
                                        .time_limit = k ? 1e6 : 0};
            assert_int_equal(mp_solve(&request, &answers[k], NULL), MP_OK);
            assert_false(answers[k].stopped);
        }
        const mp_plan *a = answers[0].smallest, *b = answers[1].smallest;
        assert_int_equal(!answers[0].plan, !answers[1].plan);
        if (answers[0].plan) a = answers[0].plan, b = answers[1].plan;
        assert_int_equal(a->n_steps, b->n_steps);
        for (size_t t = 0; t < a->n_steps; t++) {
            assert_int_equal(a->steps[t].node, b->steps[t].node);
            assert_int_equal(a->steps[t].alternative, b->steps[t].alternative);
        }
        for (int k = 0; k < 2; k++) mp_answer_free(&answers[k]);
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
}
