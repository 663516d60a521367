/* test_anneal.c - annealing at tight budgets, against an exact search over all schedules. It must find a plan at the minimum
 * memory of a graph; below it, the answer is the smallest plan. */
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 60, MOVES = 4000 };

static mp_answer solve(const mp_graph *graph, const char *solver, int64_t budget_bytes)
{
    mp_answer answer;
    mp_error err = {0};
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .solver = solver, .moves = MOVES};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
    return answer;
}

/* Returns the minimum peak of all schedules, by bisection; -1: the graph is too large. */
static int64_t least_memory(const mp_graph *graph)
{
    int64_t low, ticks;
    int node;
    mp_answer all = solve(graph, "none", INT64_MAX);
    int64_t high = all.smallest->peak_bytes;
    mp_answer_free(&all);
    assert_int_equal(mp_floor(graph, &low, &node, NULL), MP_OK);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (!oracle_exact(graph, middle, true, &ticks)) return -1;
        if (ticks < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

TEST(it_comes_down_to_the_least_memory_of_small_graphs)
{
    int n = 0, n_found = 0, n_smallest = 0, n_short = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = random_graph(seed, 3 + (int)(seed % 4), (mp_fuse)(seed % MP_N_FUSES), false);
        const int64_t least = least_memory(graph);
        mp_answer all = solve(graph, "none", INT64_MAX);
        if (least >= 0 && least < all.smallest->peak_bytes) {
            mp_answer at = solve(graph, "anneal", least), below = solve(graph, "anneal", least - 1),
                      none = solve(graph, "anneal", 0);
            assert_null(below.plan);
            assert_true(below.smallest->peak_bytes >= least);
            n++;
            n_found += at.plan != NULL;
            n_smallest += below.smallest->peak_bytes == least;
            n_short += none.smallest->peak_bytes == least;
            mp_answer_free(&at);
            mp_answer_free(&below);
            mp_answer_free(&none);
        }
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    print_message("%d graphs: %d found, smallest %d, without memory %d\n", n, n_found, n_smallest, n_short);
    assert_true(n > SEEDS / 3);
    assert_true(n_found * 100 >= n * 97);
    assert_true(n_smallest * 100 >= n * 90);
    assert_true(n_short * 100 >= n * 75);
}
