/* test_smallest.c - planner/solve: if a budget cannot be met, the answer offers a size; a search with that size as the budget
 * must find a plan. */
#include "estimator/base/memory.h"
#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "memplan/smallest.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

typedef unsigned long long number; /* type to print a seed on failure */

enum { SEEDS = 16, MOVES = 60 };

static mp_graph *graph_of(uint64_t seed)
{
    return random_graph(seed, 2 + (int)(seed % 9), (mp_fuse)(seed % MP_N_FUSES), false);
}

/* Solves the request; fails the test if there is no answer. */
static mp_answer solved(const mp_request *request, bool with_arena, uint64_t seed)
{
    mp_error err = {0};
    mp_answer answer = {0};
    if ((with_arena ? mp_solve_with_arena : mp_solve_or_smallest)(request, &answer, &err) != MP_OK)
        fail_msg("seed %llu: %s", (number)seed, err.message);
    return answer;
}

/* Budgets from below the floor to the need of keep-all; with an arena the relevant steps are small. */
TEST(what_is_offered_is_found_when_it_is_asked_for)
{
    enum { BUDGETS = 5 };
    int n_offers = 0, n_above_floor = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = graph_of(seed);
        mp_request request = {.graph = graph, .budget_bytes = INT64_MAX, .moves = MOVES, .wants_bound = seed % 2};
        mp_answer all = solved(&request, false, seed);
        const int64_t least = all.floor_bytes - 1, most = all.plan->peak_bytes;
        for (int k = 0; k < 2 * BUDGETS; k++) {
            const bool with_arena = k >= BUDGETS;
            request.budget_bytes = least + (most - least) * (k % BUDGETS) / (2 * BUDGETS);
            mp_answer first = solved(&request, with_arena, seed);
            const int64_t offer = mp_plan_need(first.smallest);
            if (!first.plan) {
                n_offers++;
                n_above_floor += request.budget_bytes >= all.floor_bytes;
                assert_true(offer > request.budget_bytes);
                request.budget_bytes = offer;
                mp_answer again = solved(&request, with_arena, seed);
                if (!again.plan) fail_msg("seed %llu: %lld bytes are offered and refused", (number)seed, (long long)offer);
                assert_true(mp_plan_need(again.plan) <= offer && again.plan->budget_bytes == offer);
                assert_int_equal(mp_plan_check(graph, again.plan, NULL), MP_OK);
                assert_true(again.plan->ticks <= first.smallest->ticks);
                mp_answer_free(&again);
            }
            mp_answer_free(&first);
        }
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    if (n_offers < SEEDS || n_above_floor < SEEDS / 6) fail_msg("%d offers, %d above the floor", n_offers, n_above_floor);
    assert_int_equal(mp_alloc_live, 0);
}

static void scramble_ticks(mp_graph *graph, uint64_t seed)
{
    random_source source = {seed};
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (size_t k = 0; k < graph->nodes[i].n_alternatives; k++)
            graph->nodes[i].alternatives[k].ticks = 1 + random_below(&source, 1000);
}

/* The smallest plan must not depend on the request or on the measured times of operators. */
TEST(the_smallest_plan_is_the_same_for_all_budgets_and_times)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = graph_of(seed);
        mp_plan *plain = NULL, *other = NULL;
        mp_request request = {.graph = graph, .budget_bytes = INT64_MAX};
        assert_int_equal(mp_smallest_plan(&request, true, &plain, NULL), MP_OK);
        assert_int_equal(mp_plan_check(graph, plain, NULL), MP_OK);
        scramble_ticks(graph, seed);
        request = (mp_request){.graph = graph,
                               .budget_bytes = plain->peak_bytes,
                               .seed = seed,
                               .moves = 1,
                               .effort = MP_EFFORT_THOROUGH,
                               .wants_bound = true};
        assert_int_equal(mp_smallest_plan(&request, true, &other, NULL), MP_OK);
        if (mp_plan_need(other) != mp_plan_need(plain) || other->peak_bytes != plain->peak_bytes)
            fail_msg("seed %llu: %lld and %lld bytes", (number)seed, (long long)mp_plan_need(plain),
                     (long long)mp_plan_need(other));
        mp_plan_free(plain);
        mp_plan_free(other);
        mp_graph_free(graph);
    }
    assert_int_equal(mp_alloc_live, 0);
}

/* If a user enters the offered number of bytes, the result equals the result of a search from the smallest plan, as for
 * `min`. */
TEST(an_offer_is_met_by_the_plan_of_min)
{
    enum { N_SEEDS = 4, NODES = 14 };
    int n_recomputing = 0;
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        mp_graph *graph = random_graph(seed, NODES + (int)seed, (mp_fuse)(seed % MP_N_FUSES), false);
        mp_plan *least = NULL;
        mp_request request = {.graph = graph, .moves = MOVES, .budget_bytes = MP_NO_LIMIT};
        assert_int_equal(mp_smallest_plan(&request, true, &least, NULL), MP_OK);
        request.budget_bytes = mp_plan_need(least);
        mp_answer typed = solved(&request, true, seed);
        request.start = least;
        mp_answer min = solved(&request, true, seed);
        if (!typed.plan || typed.plan->ticks > min.plan->ticks)
            fail_msg("seed %llu: %lld ticks, and %lld from the smallest plan", (number)seed,
                     typed.plan ? (long long)typed.plan->ticks : -1, (long long)min.plan->ticks);
        n_recomputing += min.plan->ticks > min.plan->baseline_ticks;
        mp_answer_free(&typed);
        mp_answer_free(&min);
        mp_plan_free(least);
        mp_graph_free(graph);
    }
    assert_true(n_recomputing > N_SEEDS / 2);
    assert_int_equal(mp_alloc_live, 0);
}
