/* test_sweep.c - the trade-off curve and evenly spread checkpoints; the frontier against a plain list of all added points. */
#include "estimator/base/memory.h"
#include "memplan/studies/sweep.h"
#include "planner/studies/frontier.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/random_graph.h"

enum { LAYERS = 60, BYTES = 1000, STATIC = 5000, ADDED = 60 };

static mp_graph *chain(void)
{
    mp_graph *graph;
    mp_error err = {0};
    if (chain_graph(LAYERS, BYTES, STATIC, true, &graph, &err) != MP_OK) fail_msg("%s", err.message);
    return graph;
}

static mp_sweep sweep(const mp_sweep_request *request)
{
    mp_sweep found;
    mp_error err = {0};
    if (mp_sweep_budgets(request, &found, &err) != MP_OK) fail_msg("%s", err.message);
    return found;
}

TEST(every_point_is_at_least_what_the_searcher_answers_for_its_budget)
{
    static const char *const solvers[] = {"chen", "lower-set"};
    static const int64_t budgets[] = {60000, 25000, 40000, 66000};
    mp_graph *graph = chain();
    mp_sweep found =
        sweep(&(mp_sweep_request){.graph = graph, .budgets = budgets, .n_budgets = 4, .solvers = solvers, .n_solvers = 2});
    assert_int_equal(found.n_curves, 2);
    assert_int_equal(found.keep_all_bytes, chain_keep_all_bytes(LAYERS, BYTES, STATIC));
    for (size_t k = 0; k < found.n_curves; k++) {
        const mp_sweep_curve *c = &found.curves[k];
        assert_string_equal(c->solver, solvers[k]);
        assert_int_equal(c->n, 4);
        for (size_t i = 0; i < c->n; i++) {
            const mp_sweep_point *p = &c->points[i];
            mp_answer answer;
            const mp_request request = {.graph = graph, .budget_bytes = p->budget_bytes, .solver = c->solver};
            assert_int_equal(mp_solve(&request, &answer, NULL), MP_OK);
            assert_true(p->feasible || !answer.plan);
            if (p->feasible) {
                assert_true(p->peak_bytes <= p->budget_bytes);
                if (answer.plan) assert_true(p->ticks <= answer.plan->ticks);
                assert_int_equal(p->n_recomputed,
                                 answer.plan->ticks - found.keep_all_ticks); /* a recomputation takes one tick */
            }
            if (i) assert_true(c->points[i - 1].budget_bytes < p->budget_bytes);
            mp_answer_free(&answer);
        }
    }
    mp_sweep_free(&found);
    mp_graph_free(graph);
}

TEST(by_default_curves_lead_from_the_smallest_plan_to_keep_all)
{
    mp_graph *graph = chain();
    mp_sweep found = sweep(&(mp_sweep_request){.graph = graph});
    assert_true(found.n_curves >= 3);
    for (size_t k = 0; k < found.n_curves; k++) {
        const mp_sweep_curve *c = &found.curves[k];
        assert_in_range(c->n, 2, MP_SWEEP_BUDGETS + 1);
        assert_int_equal(c->points[0].peak_bytes, c->smallest_bytes);
        assert_true(c->smallest_bytes >= found.floor_bytes && c->smallest_bytes < found.keep_all_bytes / 2);
        assert_int_equal(c->points[c->n - 1].ticks, found.keep_all_ticks);
        for (size_t i = 0; i < c->n; i++) {
            const mp_sweep_point *p = &c->points[i];
            assert_true(p->feasible && p->peak_bytes <= p->budget_bytes);
            if (i) assert_true(p->ticks <= c->points[i - 1].ticks); /* a larger budget never gives a slower plan */
        }
    }
    mp_sweep_free(&found);
    mp_graph_free(graph);
}

TEST(below_the_floor_nothing_is_feasible)
{
    static const int64_t budgets[] = {0, STATIC};
    mp_graph *graph = chain();
    mp_sweep found = sweep(&(mp_sweep_request){.graph = graph, .budgets = budgets, .n_budgets = 2});
    for (size_t k = 0; k < found.n_curves; k++)
        for (size_t i = 0; i < found.curves[k].n; i++) assert_false(found.curves[k].points[i].feasible);
    mp_sweep_free(&found);
    mp_graph_free(graph);
}

TEST(a_searcher_that_does_not_apply_is_named_only_if_asked_for)
{
    static const char *const named[] = {"ilp"}, *const unknown[] = {"chne"};
    mp_graph *graph;
    mp_sweep found = {0};
    assert_int_equal(chain_graph(LAYERS, BYTES, STATIC, false, &graph, NULL), MP_OK);
    assert_int_equal(mp_sweep_budgets(&(mp_sweep_request){.graph = graph, .solvers = named, .n_solvers = 1}, &found, NULL),
                     MP_NOT_APPLICABLE);
    assert_int_equal(mp_sweep_budgets(&(mp_sweep_request){.graph = graph, .solvers = unknown, .n_solvers = 1}, &found, NULL),
                     MP_INVALID);
    found = sweep(&(mp_sweep_request){.graph = graph, .moves = 10}); /* without a list of searchers, ilp is omitted */
    assert_int_equal(found.n_curves, 6); /* chain is omitted too, because there are too few blocks */
    for (size_t k = 0; k < found.n_curves; k++) assert_string_not_equal(found.curves[k].solver, "ilp");
    mp_sweep_free(&found);
    mp_graph_free(graph);
}

static bool stop_soon(size_t k, size_t n, const mp_progress *search, void *data)
{
    int *left = data;
    (void)search;
    assert_true(k < n);
    return --*left > 0;
}

TEST(a_stop_leaves_the_points_so_far)
{
    mp_graph *graph = chain();
    for (int calls = 1; calls < 10; calls++) {
        int left = calls;
        mp_sweep found = sweep(&(mp_sweep_request){.graph = graph, .progress = stop_soon, .progress_data = &left});
        assert_true(found.stopped);
        for (size_t k = 0; k < found.n_curves; k++)
            for (size_t i = 0; i < found.curves[k].n; i++) assert_true(found.curves[k].points[i].feasible);
        mp_sweep_free(&found);
    }
    mp_graph_free(graph);
}

/* A sweep with two curves, whose best points are found by hand. */
TEST(points_are_looked_up)
{
    mp_sweep_point first[] = {{10, true, 9, 50, 0, 0}, {20, true, 20, 30, 0, 0}, {30, false, 0, 0, 0, 0}},
                   second[] = {
                       {5, false, 0, 0, 0, 0}, {10, true, 8, 50, 0, 0}, {20, true, 19, 31, 0, 0}, {30, true, 25, 30, 0, 0}};
    mp_sweep_curve curves[] = {{"first", 9, 3, first}, {"second", 8, 4, second}};
    mp_sweep_bound bounds[] = {{5, 0, true}, {10, 40, false}};
    const mp_sweep s = {.floor_bytes = 6, .n_curves = 2, .curves = curves, .n_bounds = 2, .bounds = bounds};
    const char *solver = "";
    const mp_sweep_point *p = mp_sweep_best_above(&s, -1, &solver);
    assert_true(p == &second[0] && !strcmp(solver, "second")); /* no plan for 5 bytes */
    p = mp_sweep_best_above(&s, 5, &solver);
    assert_ptr_equal(p, &second[1]); /* equally fast, with a smaller peak */
    p = mp_sweep_best_above(&s, 10, &solver);
    assert_true(p == &first[1] && !strcmp(solver, "first")); /* faster */
    p = mp_sweep_best_above(&s, 20, &solver);
    assert_ptr_equal(p, &second[3]); /* the only plan */
    assert_null(mp_sweep_best_above(&s, 30, &solver));
    assert_ptr_equal(mp_sweep_least(&s), &first[0]);
    assert_true(mp_sweep_is_cheapest(&s, &first[1]) && mp_sweep_is_cheapest(&s, &second[3]));
    assert_false(mp_sweep_is_cheapest(&s, &second[2]));
    assert_ptr_equal(mp_sweep_bound_at(&s, 10), &bounds[1]);
    assert_null(mp_sweep_bound_at(&s, 20));
    assert_false(mp_sweep_is_refuted(&s));
    mp_sweep_curve refuted = {"second", -1, 1, second};
    const mp_sweep none = {.floor_bytes = 5, .n_curves = 1, .curves = &refuted, .n_bounds = 1, .bounds = bounds};
    assert_true(mp_sweep_is_refuted(&none)); /* by the bound; the floor does not exceed the budget */
    assert_null(mp_sweep_least(&none));
    assert_false(mp_sweep_is_refuted(&(mp_sweep){.n_curves = 0}));
}

TEST(too_few_and_too_many_checkpoints_hurt)
{
    mp_graph *graph = chain();
    mp_spread_point *points;
    size_t n, best = 0;
    assert_int_equal(mp_spread(graph, 25, &points, &n, NULL), MP_OK);
    assert_in_range(n, 10, 25);
    assert_int_equal(points[0].n_checkpoints, 0); /* keep-all */
    assert_int_equal(points[0].peak_bytes, chain_keep_all_bytes(LAYERS, BYTES, STATIC));
    for (size_t k = 1; k < n; k++) {
        assert_true(points[k].n_checkpoints > points[k - 1].n_checkpoints);
        if (points[k].peak_bytes < points[best].peak_bytes) best = k;
    }
    assert_int_equal(points[n - 1].n_checkpoints, LAYERS - 1);
    assert_in_range(points[best].n_checkpoints, 5, 12); /* about the square root of the number of layers */
    assert_true(points[best].peak_bytes * 2 < points[1].peak_bytes);
    assert_true(points[best].peak_bytes * 2 < points[n - 1].peak_bytes);
    mp_free(points);
    mp_graph_free(graph);
}

/* Each equal stretch of the chain has one checkpoint: the last of its smallest activations. `segments` with the same list has
 * the same cost. */
TEST(a_spread_list_costs_what_segments_cost)
{
    mp_graph *graph = chain();
    mp_spread_point *points;
    size_t n;
    mp_storage *activations = &graph->storages[2]; /* activations[k] is activation k of the chain */
    for (int k = 0; k < LAYERS; k++) activations[k].bytes = 500 + k * 37 % 11 * 100;
    assert_int_equal(mp_spread(graph, LAYERS, &points, &n, NULL), MP_OK);
    assert_int_equal(n, LAYERS); /* each number of checkpoints occurs once */
    for (size_t p = 0; p < n; p++) {
        int list[LAYERS];
        const int n_list = (int)points[p].n_checkpoints;
        int64_t peak, ticks;
        for (int i = 0; i < n_list; i++) {
            const int end = (LAYERS - 1) * (i + 1) / n_list;
            int best = (LAYERS - 1) * i / n_list;
            for (int k = best; k < end; k++)
                if (activations[k].bytes <= activations[best].bytes) best = k;
            list[i] = 2 + best;
        }
        assert_int_equal(mp_segments_on(graph, list, (size_t)n_list, &peak, &ticks, NULL), MP_OK);
        assert_int_equal(points[p].peak_bytes, peak);
        assert_int_equal(points[p].ticks, ticks);
    }
    mp_free(points);
    mp_graph_free(graph);
}

TEST(sweeps_survive_every_allocation_failure)
{
    static const char *const solvers[] = {"none"};
    mp_graph *graph;
    assert_int_equal(chain_graph(6, BYTES, STATIC, true, &graph, NULL), MP_OK);
    const long before = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k += 3) {
        mp_sweep found = {0};
        mp_alloc_budget = k;
        st = mp_sweep_budgets(&(mp_sweep_request){.graph = graph, .n_budgets = 2, .solvers = solvers, .n_solvers = 1}, &found,
                              NULL);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        mp_sweep_free(&found);
        assert_int_equal(mp_alloc_live, before);
    }
    mp_graph_free(graph);
}

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
