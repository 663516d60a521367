/* test_lagrange.c - planner/lagrange: labels against all possible labels, schedules that run, plans against the cheapest. */
#include "estimator/base/memory.h"
#include "memplan/bound.h"
#include "memplan/check.h"
#include "memplan/floor.h"
#include "memplan/solver.h"
#include "planner/lagrange/lagrange.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/chain_graph.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"
#include "tests/oracles/oracle_simulator.h"
#include "tests/oracles/random_graph.h"

static mp_cut_labels *problem_of(const mp_graph *graph)
{
    mp_cut_labels *x = NULL;
    mp_error err = {0};
    if (mp_cut_labels_new(graph, &x, &err) != MP_OK) fail_msg("%s", err.message);
    return x;
}

static mp_step *schedule_of(const mp_cut_labels *x, size_t *n)
{
    mp_step *steps = NULL;
    assert_int_equal(mp_lagrange_schedule(x, &steps, n, NULL), MP_OK);
    return steps;
}

/* For any prices, and even for random labels, the schedule runs and is complete. It runs no node more than twice (unless
 * activations may be evicted again), and its first runs are in list order. */
TEST(labels_of_any_prices_give_schedules_that_run)
{
    int n_again = 0, n_thrice = 0, n_cases = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *graph = random_graph(seed, 1 + (int)(seed % 40), (mp_fuse)(seed % MP_N_FUSES), seed % 7 == 0);
        mp_cut_labels *x = problem_of(graph);
        random_source random = {seed};
        double *price = mp_alloc(graph->n_nodes, sizeof *price);
        int *runs = mp_alloc(graph->n_nodes, sizeof *runs);
        for (int round = 0; round < 8; round++) {
            size_t n;
            for (int k = 0; k < x->n; k++) price[k] = random_chance(&random, 30) ? random_below(&random, 1 << 2 * round) : 0;
            x->evicts_again = round >= 4;
            for (int k = 0; k < x->forward_end; k++) x->is_kept[k] = random_chance(&random, 10);
            mp_cut_labels_find(x, price);
            for (int k = 0; k < x->forward_end && round % 4 == 3; k++)
                x->recomputed[k] = x->repeatable[k] && random_chance(&random, 50);
            mp_step *steps = schedule_of(x, &n);
            mp_plan *plan = NULL;
            mp_error err = {0};
            assert_int_equal(mp_plan_new(graph, "lagrange", steps, n, &plan, &err), MP_OK);
            if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
            memset(runs, 0, graph->n_nodes * sizeof *runs);
            for (size_t t = 0, last = 0; t < n; t++) {
                if (runs[steps[t].node]++ || graph->nodes[steps[t].node].phase == MP_PHASE_UPDATE) continue;
                assert_true((size_t)steps[t].node >= last);
                last = (size_t)steps[t].node;
            }
            for (size_t v = 0; v < graph->n_nodes; v++) {
                assert_true(runs[v] >= 1 && (x->evicts_again || runs[v] <= 2));
                n_thrice += runs[v] > 2;
            }
            assert_true(n <= 4 * graph->n_nodes);
            n_again += n > graph->n_nodes;
            n_cases++;
            mp_plan_free(plan);
            mp_free(steps);
        }
        mp_free(price);
        mp_free(runs);
        mp_cut_labels_free(x);
        mp_graph_free(graph);
    }
    assert_true(n_thrice > 0);
    if (n_again < n_cases / 3) fail_msg("%d of %d schedules run something again", n_again, n_cases);
}

/* Returns the ticks of the schedule for these labels, plus the price times the bytes live at the turn-around. */
static double cost_of_labels(const mp_cut_labels *x, double price)
{
    const mp_graph *graph = x->graph;
    size_t n, turn = 0;
    mp_timeline *tl;
    mp_step *steps = schedule_of(x, &n);
    assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
    while (steps[turn].node != x->node[x->forward_end]) turn++;
    int64_t *between = mp_alloc(n + 1, sizeof *between);
    mp_timeline_between(graph, tl, between);
    const double cost = (double)tl->ticks + price * (double)between[turn];
    mp_free(between);
    mp_timeline_free(tl);
    mp_free(steps);
    return cost;
}

/* With a price only at the turn-around, the labels have the lowest cost of all labels, apart from a small tilt of the ticks. */
TEST(labels_are_the_cheapest_of_all)
{
    int n_cases = 0, n_least = 0, n_between = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        mp_graph *graph = random_graph(seed, 3 + (int)(seed % 6), MP_FUSE_BACKWARD, false);
        mp_cut_labels *x = problem_of(graph);
        double *price = mp_alloc(graph->n_nodes, sizeof *price);
        bool *labels = mp_alloc((size_t)x->forward_end, sizeof *labels);
        for (int k = -6; k <= 2; k++) {
            double least = 1e300, all = 0;
            price[x->forward_end] = k < 0 ? 1.0 / (double)(1 << -k) : (double)(1 << k);
            price[x->forward_end] /= (double)graph->alignment;
            for (int round = 0; round < 3; round++) mp_cut_labels_find(x, price);
            memcpy(labels, x->recomputed, (size_t)x->forward_end * sizeof *labels);
            const double found = cost_of_labels(x, price[x->forward_end]);
            for (int set = 0; set < 1 << x->forward_end; set++) {
                bool is_allowed = true;
                for (int i = 0; i < x->forward_end; i++) {
                    x->recomputed[i] = set >> i & 1;
                    is_allowed &= !x->recomputed[i] || x->repeatable[i];
                }
                if (!is_allowed) continue;
                const double cost = cost_of_labels(x, price[x->forward_end]);
                if (cost < least) least = cost;
                if (!set) all = cost;
            }
            memcpy(x->recomputed, labels, (size_t)x->forward_end * sizeof *labels);
            n_cases++;
            n_least += found <= 1.02 * least;
            n_between += least < all;
        }
        mp_free(labels);
        mp_free(price);
        mp_cut_labels_free(x);
        mp_graph_free(graph);
    }
    if (n_least < n_cases || n_between < n_cases / 3) /* measured: 1350 of 1350, 550 */
        fail_msg("%d cases: %d the cheapest, in %d something runs again", n_cases, n_least, n_between);
}

/* Solves with few moves, because more moves change little in graphs of this size (measured: 480 plans instead of 478, the same
 * cheapest). */
static int64_t ticks_within(const mp_graph *graph, int64_t budget_bytes)
{
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .solver = "lagrange", .moves = 300};
    mp_answer answer = {0};
    mp_error err = {0};
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("%s", err.message);
    const int64_t ticks = answer.plan ? answer.plan->ticks : -1;
    for (int k = 0; k < 2; k++) {
        const mp_plan *plan = k ? answer.smallest : answer.plan;
        if (!plan) continue;
        simulation s = simulate(graph, plan->steps, plan->n_steps);
        assert_int_equal(s.tiers[0].peak_bytes, plan->peak_bytes);
        assert_int_equal(s.ticks, plan->ticks);
        simulation_free(&s);
    }
    mp_answer_free(&answer);
    return ticks;
}

/* Compares with the cheapest schedules in list order of tiny graphs. */
TEST(plans_are_near_the_cheapest)
{
    int n_feasible = 0, n_found = 0, n_least = 0, n_dear = 0, n_least_dear = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mp_graph *graph = random_graph(seed, 2 + (int)(seed % 4), (mp_fuse)(seed % MP_N_FUSES), false);
        int64_t floor_bytes, ticks;
        const int64_t peak_bytes = keep_all_peak(graph);
        int node;
        assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
        const int64_t base = ticks_within(graph, peak_bytes);
        for (int k = 0; k < 5; k++) {
            const int64_t budget = floor_bytes + (peak_bytes - floor_bytes) * k / 5;
            if (!oracle_exact(graph, budget, false, &ticks) || ticks < 0) continue;
            const int64_t found = ticks_within(graph, budget);
            assert_true(found < 0 || found >= ticks);
            n_feasible++;
            n_found += found >= 0;
            n_least += found == ticks;
            n_dear += ticks > base;
            n_least_dear += ticks > base && found == ticks;
        }
        mp_graph_free(graph);
    }
    /* measured: of 795 feasible cases a plan in 478, the cheapest in 331; of the 588 with more ticks than keep-all, in 149. The
     * missing plans use other alternatives or third runs. */
    if (n_found < 470 || n_least < 320 || n_least_dear < 140)
        fail_msg("%d feasible, %d found, %d the cheapest, %d dear, of them %d", n_feasible, n_found, n_least, n_dear,
                 n_least_dear);
}

/* With equal layers, no more layers are recomputed than the budget requires, as long as the recomputed layers fit at once. */
TEST(long_chains_are_near_the_bound)
{
    for (int n = 100; n <= 1000; n *= 10) {
        mp_graph *graph;
        assert_int_equal(chain_graph(n, 10, 100, true, &graph, NULL), MP_OK);
        for (int percent = 30; percent < 100; percent += 10) {
            const int64_t budget = 100 + (chain_keep_all_bytes(n, 10, 100) - 100) * percent / 100;
            const mp_bound_options options = {.any_order = true, .effort = 1};
            mp_bound bound;
            assert_int_equal(mp_bound_within(graph, budget, &options, &bound, NULL), MP_OK);
            const int64_t ticks = ticks_within(graph, budget);
            const double most = percent >= 60 ? 1 : 1.05; /* measured: 1 and 1.048 */
            if (ticks < 0 || (double)ticks > most * (double)bound.ticks)
                fail_msg("%d layers, %d %%: %lld ticks, bound %lld", n, percent, (long long)ticks, (long long)bound.ticks);
        }
        mp_graph_free(graph);
    }
}

TEST(survives_every_allocation_failure)
{
    mp_graph *graph = random_graph(4, 5, MP_FUSE_BACKWARD, false);
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    long k = 0;
    for (; st != MP_OK; k += 1 + k / 200) {
        mp_error err = {0};
        const mp_request request = {.graph = graph, .budget_bytes = keep_all_peak(graph) - 1, .solver = "lagrange", .moves = 5};
        mp_answer answer = {0};
        mp_alloc_budget = k;
        st = mp_solve(&request, &answer, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK) assert_int_equal(st, MP_NOMEM);
        if (st != MP_OK) assert_true(err.message[0] != '\0');
        mp_answer_free(&answer);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_true(k > 100);
    mp_graph_free(graph);
}
