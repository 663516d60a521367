/* test_solvers.c - all searchers: their plans are valid, fit, are reproducible, and do not get slower with a larger budget. */
#include "estimator/base/memory.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

enum { SEEDS = 20, BUDGETS = 7 };

/* Asserts that the plan is valid by the checker and by the slow simulator, and claims the requested budget. */
static void assert_holds(const mp_graph *graph, const mp_plan *plan, int64_t budget_bytes)
{
    mp_error err = {0};
    if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("%s", err.message);
    simulation s = simulate(graph, plan->steps, plan->n_steps);
    assert_int_equal(s.tiers[0].peak_bytes, plan->peak_bytes);
    assert_int_equal(s.ticks, plan->ticks);
    simulation_free(&s);
    assert_true(plan->peak_bytes <= budget_bytes);
    assert_true(plan->peak_bytes >= plan->floor_bytes);
}

/* True if one search answers for every smaller budget, so that a larger budget cannot give a slower plan. */
static bool is_monotone(const char *solver)
{
    for (size_t k = 0; k < mp_solver_count(); k++)
        if (!strcmp(mp_solver_row(k)->name, solver)) return mp_solver_row(k)->monotone;
    return false;
}

TEST(every_plan_holds_and_more_room_never_costs_more)
{
    long n_plans = 0, n_cheaper = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const bool plain = seed % 10 == 0;
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 23), (mp_fuse)(seed % 3), plain);
        const int64_t whole = keep_all_peak(graph);
        int64_t floor_bytes, least[BUDGETS];
        int floor_node;
        assert_int_equal(mp_floor(graph, &floor_bytes, &floor_node, NULL), MP_OK);
        for (int i = 0; i < BUDGETS; i++) least[i] = INT64_MAX;
        for (size_t k = mp_solver_count(); k-- > 0;) { /* auto, the first row, is tested last */
            const char *solver = mp_solver_row(k)->name;
            int64_t before = INT64_MAX;
            if (mp_solver_row(k)->wants_copies) continue;
            for (int i = 0; i < BUDGETS; i++) { /* from below the floor to above keep-all */
                const int64_t budget = floor_bytes - 1 + (whole + 2 - floor_bytes) * i / (BUDGETS - 1);
                const mp_request request = {
                    .graph = graph, .budget_bytes = budget, .solver = solver, .seed = seed, .moves = 200};
                mp_answer answer = {0};
                mp_error err = {0};
                const mp_status st = mp_solve(&request, &answer, &err);
                if (!strcmp(solver, "ilp"))
                    assert_int_equal(st == MP_NOT_APPLICABLE, plain); /* other graphs have a turn-around */
                if (st == MP_NOT_APPLICABLE && (plain || !strcmp(solver, "exact")))
                    continue; /* exact: the graph is too large */
                if (st != MP_OK) fail_msg("seed %llu, %s: %s", (unsigned long long)seed, solver, err.message);
                assert_non_null(answer.smallest);
                assert_holds(graph, answer.smallest, INT64_MAX);
                assert_int_equal(answer.smallest->budget_bytes, MP_NO_LIMIT);
                assert_int_equal(answer.floor_bytes, floor_bytes);
                if (budget < floor_bytes) assert_null(answer.plan);
                assert_true(!answer.plan == (answer.smallest->peak_bytes > budget));
                const int64_t ticks = answer.plan ? answer.plan->ticks : INT64_MAX;
                if (answer.plan) {
                    assert_holds(graph, answer.plan, budget);
                    assert_int_equal(answer.plan->budget_bytes, budget);
                    assert_int_equal(answer.plan->seed, seed);
                    if (strcmp(solver, "auto")) assert_string_equal(answer.plan->solver, solver);
                    n_plans++;
                }
                if (ticks > before && is_monotone(solver))
                    fail_msg("seed %llu, %s: more room, and %lld ticks instead of %lld", (unsigned long long)seed, solver,
                             (long long)ticks, (long long)before);
                n_cheaper += i > 0 && ticks < before;
                before = ticks;
                if (budget >= whole) assert_int_equal(ticks, answer.plan->baseline_ticks);
                if (!strcmp(solver, "auto")) assert_true(ticks <= least[i]);
                if (ticks < least[i] && is_monotone(solver)) least[i] = ticks;
                mp_answer_free(&answer);
            }
        }
        mp_graph_free(graph);
    }
    assert_true(n_plans > 5 * SEEDS && n_cheaper > 2 * SEEDS);
}

TEST(same_request_gives_the_same_plan)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        mp_graph *graph = random_graph(seed, 20, (mp_fuse)(seed % 3), false);
        const int64_t budget = keep_all_peak(graph) * 9 / 10;
        const int64_t moves = seed > 2 ? 2000 : 0; /* 0: as many as a search usually makes */
        for (size_t k = 0; k < mp_solver_count(); k++) {
            const mp_request request = {
                .graph = graph, .budget_bytes = budget, .solver = mp_solver_row(k)->name, .moves = moves};
            mp_answer a = {0}, b = {0};
            const mp_status st = mp_solve(&request, &a, NULL);
            const bool may_refuse = mp_solver_row(k)->wants_copies || !strcmp(request.solver, "exact");
            assert_true(st == MP_OK || may_refuse); /* MP_NOT_APPLICABLE: the graph has no copies, or is too large */
            assert_int_equal(mp_solve(&request, &b, NULL), st);
            if (st != MP_OK) continue;
            const mp_plan *x = a.plan ? a.plan : a.smallest, *y = b.plan ? b.plan : b.smallest;
            assert_int_equal(x->n_steps, y->n_steps);
            for (size_t t = 0; t < x->n_steps; t++) assert_int_equal(x->steps[t].node, y->steps[t].node);
            assert_string_equal(x->solver, y->solver);
            mp_answer_free(&a);
            mp_answer_free(&b);
        }
        mp_graph_free(graph);
    }
}

/* With few moves, too, a larger budget must not give a slower plan: the candidates depend only on the number of moves and on
 * the ladder of budgets. */
TEST(more_room_never_costs_more_with_few_moves)
{
    for (uint64_t seed = 1; seed <= SEEDS / 3; seed++) {
        mp_graph *graph = random_graph(seed, 24, (mp_fuse)(seed % 3), false);
        const int64_t whole = keep_all_peak(graph);
        for (int64_t moves = 2; moves <= 200; moves *= 5)
            for (size_t k = 0; k < mp_solver_count(); k++) {
                int64_t before = INT64_MAX;
                if (!mp_solver_row(k)->monotone) continue;
                for (int i = 10; i <= 20; i++) {
                    const mp_request request = {
                        .graph = graph, .budget_bytes = whole / 20 * i, .solver = mp_solver_row(k)->name, .moves = moves};
                    mp_answer answer = {0};
                    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
                    const int64_t ticks = answer.plan ? answer.plan->ticks : INT64_MAX;
                    if (ticks > before)
                        fail_msg("seed %llu, %s, %lld moves: more room, and %lld ticks instead of %lld",
                                 (unsigned long long)seed, mp_solver_row(k)->name, (long long)moves, (long long)ticks,
                                 (long long)before);
                    before = ticks;
                    mp_answer_free(&answer);
                }
            }
        mp_graph_free(graph);
    }
}

static bool stop_at_once(const mp_progress *progress, void *data)
{
    ++*(int *)data;
    assert_non_null(progress->solver);
    assert_true(progress->n_offers > 0 && progress->elapsed_seconds >= 0);
    return false;
}

TEST(requests_that_make_no_sense_are_refused)
{
    mp_graph *graph = random_graph(2, 12, MP_FUSE_NONE, false);
    mp_answer answer = {0};
    mp_error err = {0};
    mp_request request = {.graph = graph, .budget_bytes = INT64_MAX, .solver = "magic"};
    assert_int_equal(mp_solve(&request, &answer, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "magic"));
    const int checkpoint = 0;
    request = (mp_request){
        .graph = graph, .budget_bytes = INT64_MAX, .solver = "chen", .checkpoints = &checkpoint, .n_checkpoints = 1};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_INVALID);
    request = (mp_request){.graph = graph, .budget_bytes = -5};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_INVALID);
    assert_null(answer.plan);
    assert_null(answer.smallest);
    mp_graph_free(graph);
}

/* A stopped search returns its best plan so far. Keep-all is tried first, so there is always a plan. */
TEST(stopped_search_still_answers)
{
    mp_graph *graph = random_graph(5, 24, MP_FUSE_NONE, false);
    int n_calls = 0;
    const mp_request request = {.graph = graph,
                                .budget_bytes = 0,
                                .time_limit = 1e-9,
                                .moves = 1000000,
                                .progress = stop_at_once,
                                .progress_data = &n_calls};
    mp_answer answer = {0};
    assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
    assert_true(answer.stopped);
    assert_null(answer.plan);
    assert_non_null(answer.smallest);
    assert_true(n_calls <= 1);
    mp_answer_free(&answer);
    mp_graph_free(graph);
}

/* In a large graph, a plan within the budget has been found by then. */
TEST(stopped_search_of_a_large_graph_has_a_plan)
{
    const char *const names[] = {"auto", "lagrange"};
    mp_graph *graph;
    assert_int_equal(chain_graph(4000, 10, 100, true, &graph, NULL), MP_OK);
    for (int k = 0; k < 2; k++) {
        const mp_request request = {.graph = graph,
                                    .budget_bytes = chain_keep_all_bytes(4000, 10, 100) * 2 / 5,
                                    .solver = names[k],
                                    .time_limit = 1e-9,
                                    .wants_bound = true};
        mp_answer answer = {0};
        assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
        assert_true(answer.stopped);
        assert_non_null(answer.plan);
        assert_string_equal(answer.plan->solver, "lagrange");
        mp_answer_free(&answer);
    }
    mp_graph_free(graph);
}

/* Running `segments` on the list of the plan that it found gives the same plan, because users copy such lists. */
TEST(list_that_segments_finds_stands_for_its_plan)
{
    int n_lists = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mp_graph *graph = random_graph(seed, 16, MP_FUSE_NONE, false);
        for (int percent = 0; percent < 100; percent += 25) {
            const mp_request request = {
                .graph = graph, .budget_bytes = keep_all_peak(graph) / 100 * percent, .solver = "segments", .moves = 200};
            mp_answer answer = {0};
            int64_t peak, ticks;
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            const mp_plan *plan = answer.plan ? answer.plan : answer.smallest;
            if (plan->ticks > plan->baseline_ticks) {
                assert_int_equal(mp_segments_on(graph, plan->checkpoints, plan->n_checkpoints, &peak, &ticks, NULL), MP_OK);
                assert_int_equal(peak, plan->peak_bytes);
                assert_int_equal(ticks, plan->ticks);
                n_lists++;
            }
            mp_answer_free(&answer);
        }
        mp_graph_free(graph);
    }
    assert_true(n_lists > SEEDS);
}

TEST(solve_survives_every_allocation_failure)
{
    mp_graph *graph = random_graph(4, 5, MP_FUSE_BACKWARD, false);
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    long k = 0;
    /* Fails every allocation at first, then at growing intervals, because later allocations repeat those of the first
     * candidates. */
    for (; st != MP_OK; k += 1 + k / 500) {
        const mp_request request = {.graph = graph, .budget_bytes = keep_all_peak(graph) - 1, .moves = 3};
        mp_answer answer = {0};
        mp_error err = {0};
        mp_alloc_budget = k;
        st = mp_solve(&request, &answer, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) {
            assert_int_equal(st, MP_NOMEM);
            assert_true(err.message[0] != '\0');
            assert_null(answer.plan);
            assert_null(answer.smallest);
        }
        mp_answer_free(&answer);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(graph);
}
