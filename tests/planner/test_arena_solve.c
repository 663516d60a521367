/* test_arena_solve.c - planner/solve: answers fit their budget including their arena, and a time limit reserves time for the
 * arena. */
#include "estimator/base/memory.h"
#include "memplan/arena.h"
#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "memplan/search.h"
#include "memplan/smallest.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

typedef unsigned long long number; /* type to print a seed on failure */

/* Budgets between the floor and the peak of keep-all. At many of them, the first plan found fits only without its arena. */
TEST(answers_fit_their_budget_with_their_arena)
{
    static const uint64_t seeds[] = {95, 203, 322};
    int n_none = 0, n_again = 0, n_smallest = 0;
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++) {
        const number seed = seeds[k];
        mp_error err = {0};
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 17), (mp_fuse)(seed % MP_N_FUSES), seed % 7 == 0);
        mp_request request = {
            .graph = graph, .budget_bytes = INT64_MAX, .solver = "auto", .moves = 60, .find_smallest = mp_smallest_plan};
        mp_answer all, bare, answer;
        assert_int_equal(mp_solve(&request, &all, NULL), MP_OK);
        const int64_t least = all.floor_bytes, most = all.plan->peak_bytes;
        for (int quarter = 0; quarter <= 4; quarter++) {
            const int64_t budget = request.budget_bytes = least + (most - least) * quarter / 4;
            if (mp_solve_with_arena(&request, &answer, &err) != MP_OK) fail_msg("seed %llu: %s", seed, err.message);
            const mp_plan *plan = answer.plan;
            if (plan && (mp_plan_need(plan) > budget || plan->budget_bytes != budget))
                fail_msg("seed %llu: over the budget", seed);
            if (!plan && mp_plan_need(answer.smallest) <= budget) fail_msg("seed %llu: the smallest plan fits", seed);
            assert_true(answer.smallest->arena_bytes >= 0 && answer.smallest->budget_bytes == MP_NO_LIMIT);
            assert_int_equal(mp_solve(&request, &bare, NULL), MP_OK);
            if (bare.plan) assert_int_equal(mp_arena_layout(graph, bare.plan, NULL), MP_OK);
            n_none += !bare.plan;
            if (!bare.plan)
                assert_null(plan);
            else if (mp_plan_need(bare.plan) <= budget)
                assert_true(plan && plan->ticks == bare.plan->ticks);
            else if (plan && plan->ticks < answer.smallest->ticks)
                n_again++;
            else if (plan)
                n_smallest++;
            mp_answer_free(&bare);
            mp_answer_free(&answer);
        }
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    if (n_again < 2 || !n_smallest || n_none > 3)
        fail_msg("%d searched again, %d the smallest, %d none", n_again, n_smallest, n_none);
    assert_int_equal(mp_alloc_live, 0);
}

/* Lays out a plan for a budget; the result may exceed the budget. */
static void lay_out_within(const mp_graph *graph, mp_plan *plan, int64_t budget)
{
    const mp_arena_options options = {.capacity_bytes = budget - plan->static_bytes};
    assert_int_equal(mp_arena_layout_within(graph, plan, &options, NULL), MP_OK);
}

/* If a plan fits after the search was repeated with a much smaller budget, the search continues with a larger one. The answer
 * takes no more ticks than the first plan that fits, and usually fewer. */
TEST(what_is_left_of_the_budget_is_used)
{
    static const uint64_t seeds[] = {7, 134, 146, 148, 203, 318};
    int n_fits = 0, n_cheaper = 0;
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++) {
        mp_graph *graph = random_graph(seeds[k], 2 + (int)(seeds[k] % 17), (mp_fuse)(seeds[k] % MP_N_FUSES), false);
        mp_answer all, bare, shrunk, answer;
        mp_request request = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "anneal", .moves = 60};
        assert_int_equal(mp_solve(&request, &all, NULL), MP_OK);
        for (int eighth = 1; eighth <= 4; eighth *= 2) {
            const int64_t budget = all.floor_bytes + (all.plan->peak_bytes - all.floor_bytes) * eighth / 8;
            request.budget_bytes = budget;
            assert_int_equal(mp_solve(&request, &bare, NULL), MP_OK);
            if (bare.plan) lay_out_within(graph, bare.plan, budget);
            if (bare.plan && mp_plan_need(bare.plan) > budget) {
                mp_request lower = request;
                lower.budget_bytes = bare.plan->peak_bytes - (mp_plan_need(bare.plan) - budget);
                lower.start = bare.plan;
                lower.refine = true;
                assert_int_equal(mp_solve(&lower, &shrunk, NULL), MP_OK);
                if (shrunk.plan) lay_out_within(graph, shrunk.plan, budget);
                if (shrunk.plan && mp_plan_need(shrunk.plan) <= budget) {
                    assert_int_equal(mp_solve_with_arena(&request, &answer, NULL), MP_OK);
                    assert_true(answer.plan && mp_plan_need(answer.plan) <= budget);
                    assert_true(answer.plan->ticks <= shrunk.plan->ticks);
                    n_fits++;
                    n_cheaper += answer.plan->ticks < shrunk.plan->ticks;
                    mp_answer_free(&answer);
                }
                mp_answer_free(&shrunk);
            }
            mp_answer_free(&bare);
        }
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    if (n_fits < 6 || n_cheaper < 6) fail_msg("%d fit when shrunk, %d of them get cheaper", n_fits, n_cheaper);
    assert_int_equal(mp_alloc_live, 0);
}

/* ---- with a time limit ---- */

/* A searcher with fixed plans: the plans offered in its first search, and in every later one. */
static struct {
    const mp_plan *over, *smallest, *fits;
    double limits[8]; /* time limits that the searcher received, in seconds */
    int n_searches;
} script;

static mp_status run_script(mp_search *search, mp_error *err)
{
    const mp_plan *const first[] = {script.over, script.smallest}, *const later[] = {script.fits, script.fits};
    const mp_plan *const *lines = script.n_searches ? later : first;
    if (script.n_searches < 8) script.limits[script.n_searches] = mp_search_request(search)->time_limit;
    script.n_searches++;
    for (int k = 0; k < 2; k++) {
        const mp_status st = mp_search_offer(search, lines[k]->steps, lines[k]->n_steps, NULL, NULL, err);
        if (st != MP_OK) return st;
    }
    return MP_OK;
}

/* The arena of the plan found exceeds the budget. The time limit must leave time for a plan whose arena fits; otherwise the
 * answer would be the smallest plan, however slow. The test reads the limits given to the searcher and waits for no clock. */
TEST(a_time_limit_keeps_a_share_for_arenas_over_the_budget)
{
    static const uint64_t seeds[] = {7, 12, 32};
    const mp_solver own = {.name = "script", .run = run_script};
    int n_tried = 0;
    for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++) {
        mp_graph *graph = random_graph(seeds[k], 2 + (int)(seeds[k] % 17), (mp_fuse)(seeds[k] % MP_N_FUSES), false);
        mp_answer all, bare, fits, answer;
        mp_request request = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "anneal", .moves = 60};
        assert_int_equal(mp_solve(&request, &all, NULL), MP_OK);
        for (int eighth = 1; eighth <= 4; eighth *= 2) {
            request.budget_bytes = all.floor_bytes + (all.plan->peak_bytes - all.floor_bytes) * eighth / 8;
            request.own = NULL;
            request.time_limit = 0;
            assert_int_equal(mp_solve(&request, &bare, NULL), MP_OK);
            if (bare.plan) assert_int_equal(mp_arena_layout(graph, bare.plan, NULL), MP_OK);
            assert_int_equal(mp_solve_with_arena(&request, &fits, NULL), MP_OK);
            if (bare.plan && mp_plan_need(bare.plan) > request.budget_bytes && fits.plan &&
                fits.plan->ticks < fits.smallest->ticks && fits.plan->peak_bytes < bare.plan->peak_bytes) {
                memset(&script, 0, sizeof script);
                script.over = bare.plan;
                script.smallest = fits.smallest;
                script.fits = fits.plan;
                request.own = &own;
                request.time_limit = 1e6;
                assert_int_equal(mp_solve_with_arena(&request, &answer, NULL), MP_OK);
                assert_true(answer.plan && mp_plan_need(answer.plan) <= request.budget_bytes);
                if (answer.plan->ticks > fits.plan->ticks) fail_msg("seed %llu: dearer", (number)seeds[k]);
                assert_true(script.n_searches > 1);
                assert_true(script.limits[0] < 0.9 * request.time_limit && script.limits[1] > 0);
                n_tried++;
                mp_answer_free(&answer);
            }
            mp_answer_free(&fits);
            mp_answer_free(&bare);
        }
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    if (n_tried < 1) fail_msg("%d tried", n_tried);
    assert_int_equal(mp_alloc_live, 0);
}

/* ---- stopped by the caller ---- */

static bool is_told(void *data)
{
    (void)data;
    return true;
}

static bool end_it(const mp_progress *progress, void *data)
{
    (void)progress, (void)data;
    return false;
}

/* A searcher that offers keep-all and then waits until it is stopped. */
static mp_status run_until_told(mp_search *search, mp_error *err)
{
    const mp_graph *graph = mp_search_request(search)->graph;
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    if (!steps) return MP_FAIL(err, MP_NOMEM, "no memory");
    mp_keep_all(graph, steps);
    const mp_status st = mp_search_offer(search, steps, graph->n_nodes, NULL, NULL, err);
    mp_free(steps);
    while (!mp_search_stopped(search)) continue;
    return st;
}

/* Answers with keep-all and the lowest arena that was found. Returns the request with a budget of twice the peak. */
static mp_request twice_the_peak(const mp_graph *graph, mp_answer *all)
{
    mp_request request = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "none", .moves = 1000};
    assert_int_equal(mp_solve_with_arena(&request, all, NULL), MP_OK);
    request.budget_bytes = 2 * all->plan->peak_bytes;
    return request;
}

/* After a stop, the first arena within the budget is used, and no lower one is searched. */
TEST(an_ended_search_ends_its_arena)
{
    const mp_solver own = {.name = "waits", .run = run_until_told};
    int n_higher = 0;
    for (uint64_t seed = 1; seed <= 200 && !n_higher; seed++) {
        mp_graph *graph = random_graph(seed, 30, MP_FUSE_NONE, false);
        mp_answer all, ended;
        mp_request request = twice_the_peak(graph, &all);
        const int64_t lowest = all.plan->arena_bytes;
        mp_arena_options first = {.capacity_bytes = request.budget_bytes - all.plan->static_bytes, .stop = is_told};
        assert_int_equal(mp_arena_layout_within(graph, all.plan, &first, NULL), MP_OK);
        if (all.plan->arena_bytes > lowest) { /* otherwise the graph shows no difference */
            request.own = &own;
            request.progress = end_it;
            assert_int_equal(mp_solve_with_arena(&request, &ended, NULL), MP_OK);
            assert_true(ended.stopped && mp_plan_need(ended.plan) <= request.budget_bytes);
            assert_int_equal(ended.plan->arena_bytes, all.plan->arena_bytes);
            mp_answer_free(&ended);
            n_higher++;
        }
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    assert_int_equal(n_higher, 1);
    assert_int_equal(mp_alloc_live, 0);
}

/* With first_fit, the answer has the first arena within the budget. If only the lowest arena is within the budget, the search
 * for offsets goes on until it has found it. */
TEST(a_first_fit_ends_the_search_for_offsets)
{
    int n_higher = 0;
    for (uint64_t seed = 1; seed <= 200 && n_higher < 5; seed++) {
        mp_graph *graph = random_graph(seed, 30, MP_FUSE_NONE, false);
        mp_answer all, first;
        mp_request request = twice_the_peak(graph, &all);
        request.first_fit = true;
        assert_int_equal(mp_solve_with_arena(&request, &first, NULL), MP_OK);
        assert_true(mp_plan_need(first.plan) <= request.budget_bytes && first.plan->ticks == all.plan->ticks);
        assert_int_equal(mp_plan_check(graph, first.plan, NULL), MP_OK);
        const bool is_higher = first.plan->arena_bytes > all.plan->arena_bytes;
        mp_answer_free(&first);
        request.budget_bytes = mp_plan_need(all.plan);
        assert_int_equal(mp_solve_with_arena(&request, &first, NULL), MP_OK);
        if (is_higher) assert_non_null(first.plan);
        n_higher += is_higher;
        mp_answer_free(&first);
        mp_answer_free(&all);
        mp_graph_free(graph);
    }
    assert_int_equal(n_higher, 5);
    assert_int_equal(mp_alloc_live, 0);
}
