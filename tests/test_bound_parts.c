/* test_bound_parts.c - what planner/bound is made of: cuts, linear programmes, intervals bounded together. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bound_case.h"
#include "chain_graph.h"
#include "estimator/memory.h"
#include "oracle_exact.h"
#include "planner/bound_linear.h"
#include "planner/bound_overlap.h"
#include "planner/glpk_session.h"
#include "planner/mincut.h"
#include "random_graph.h"

/* Small networks against all of their cuts. */
static void cuts_are_minimal(void **state)
{
    (void)state;
    enum { MOST = 9, ARCS = 30 };
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        random_source random = {seed};
        int n = 1 + random_below(&random, MOST), n_arcs = random_below(&random, ARCS), from[ARCS], to[ARCS];
        mp_mincut *cut;
        for (int k = 0; k < n_arcs; k++) {
            from[k] = random_below(&random, n);
            to[k] = (from[k] + random_below(&random, n)) % n;
        }
        assert_int_equal(mp_mincut_new(n, from, to, (size_t)n_arcs, &cut, NULL), MP_OK);
        for (int round = 0; round < 3; round++) { /* the same network with other capacities */
            int64_t least = INT64_MAX, found;
            int largest = 0;
            for (int k = 0; k < n_arcs; k++)
                cut->capacity[k] = random_chance(&random, 20) ? INT64_C(1) << 55 : random_below(&random, 20);
            for (int v = 0; v < n; v++) {
                cut->supply[v] = random_chance(&random, 40) ? random_below(&random, 30) : 0;
                cut->drain[v] = random_chance(&random, 40) ? random_below(&random, 30) : 0;
            }
            found = mp_mincut_run(cut);
            int side = 0;
            for (int v = 0; v < n; v++) side |= cut->source_side[v] << v;
            for (int set = 0; set < 1 << n; set++) {
                int64_t value = 0;
                for (int k = 0; k < n_arcs; k++)
                    if ((set >> from[k] & 1) && !(set >> to[k] & 1)) value += cut->capacity[k];
                for (int v = 0; v < n; v++) value += set >> v & 1 ? cut->drain[v] : cut->supply[v];
                if (set == side) assert_int_equal(value, found);
                if (value == least) largest |= set; /* minimum cuts are closed under union */
                if (value < least) largest = set;
                if (value < least) least = value;
            }
            assert_int_equal(found, least);
            assert_int_equal(side, largest);
        }
        mp_mincut_free(cut);
    }
}

/* minimise x + 2 y where x + y >= 3 and y - x >= -1: x = 2, y = 1, prices 1.5 and 0.5. */
static void linear_programmes_are_solved(void **state)
{
    (void)state;
    mp_bound_linear linear = {0};
    const int x = mp_bound_linear_column(&linear, 1), y = mp_bound_linear_column(&linear, 2);
    const int sum = mp_bound_linear_row(&linear, 3), difference = mp_bound_linear_row(&linear, -1);
    mp_bound_linear_entry(&linear, sum, x, 1);
    mp_bound_linear_entry(&linear, sum, y, 1);
    mp_bound_linear_entry(&linear, difference, y, 1);
    mp_bound_linear_entry(&linear, difference, x, -1);
    assert_int_equal(mp_bound_linear_solve(&linear, NULL), MP_OK);
    assert_true(fabs(linear.x[x] - 2) < 1e-4);
    assert_true(fabs(linear.x[y] - 1) < 1e-4);
    assert_true(fabs(linear.price[sum] - 1.5) < 1e-4);
    assert_true(fabs(linear.price[difference] - 0.5) < 1e-4);
    mp_bound_linear_clear(&linear);
    assert_int_equal(linear.n_columns, 0);
}

/* minimise sum of x_k where x_0 + x_k >= 1 for all k > 0: x_0 = 1. Every pair of rows shares a column, so the factor is full.
 */
static void full_programme(mp_bound_linear *linear, int n_rows)
{
    const int all = mp_bound_linear_column(linear, 1);
    for (int k = 0; k < n_rows; k++) {
        const int row = mp_bound_linear_row(linear, 1);
        mp_bound_linear_entry(linear, row, all, 1);
        mp_bound_linear_entry(linear, row, mp_bound_linear_column(linear, 1), 1);
    }
}

static bool third_time(void *data)
{
    return ++*(int *)data >= 3;
}

/* One that takes too long is not begun, and one that the caller stops is left; neither has prices. */
static void long_programmes_are_broken_off(void **state)
{
    (void)state;
    int n_asked = 0;
    mp_bound_linear small = {0}, large = {0}, stopped = {.stop = third_time, .stop_data = &n_asked};
    full_programme(&small, 100);
    full_programme(&large, 1000);
    full_programme(&stopped, 100);
    assert_int_equal(mp_bound_linear_solve(&small, NULL), MP_OK);
    assert_true(small.solved && fabs(small.x[0] - 1) < 1e-4);
    assert_int_equal(mp_bound_linear_solve(&large, NULL), MP_OK);
    assert_true(!large.solved && large.x[0] == 0 && large.price[0] == 0);
    assert_int_equal(mp_bound_linear_solve(&stopped, NULL), MP_OK);
    assert_true(!stopped.solved && stopped.x[0] == 0);
    assert_int_equal(n_asked, 3);
    assert_int_equal(mp_bound_linear_solve(&small, NULL), MP_OK);
    assert_true(small.solved);
    mp_bound_linear_clear(&small);
    mp_bound_linear_clear(&large);
    mp_bound_linear_clear(&stopped);
}

static void fail_in_session(void *data)
{
    ++*(int *)data;
    mp_glpk_point();
    ++*(int *)data;
}

/* An error of GLPK ends the session with a status, not the process; the next session works. */
static void errors_of_glpk_become_a_status(void **state)
{
    (void)state;
    int reached = 0;
    mp_error err = {0};
    mp_glpk_fail_after = 0;
    assert_int_equal(mp_glpk_session(fail_in_session, NULL, &reached, &err), MP_LIMIT);
    assert_non_null(strstr(err.message, "GLPK"));
    assert_int_equal(reached, 1);
    assert_int_equal(mp_glpk_fail_after, -1);
    assert_int_equal(mp_glpk_session(fail_in_session, NULL, &reached, &err), MP_OK);
    assert_int_equal(reached, 3);
}

/* A programme that GLPK gives up on has no prices, which is a bound without it. */
static void bound_stands_without_programmes(void **state)
{
    (void)state;
    mp_bound_linear linear = {0};
    const int x = mp_bound_linear_column(&linear, 1), row = mp_bound_linear_row(&linear, 3);
    const long live = mp_alloc_live;
    mp_bound_linear_entry(&linear, row, x, 1);
    mp_glpk_fail_after = 0;
    assert_int_equal(mp_bound_linear_solve(&linear, NULL), MP_OK);
    assert_int_equal(mp_glpk_fail_after, -1);
    assert_true(linear.x[x] == 0 && linear.price[row] == 0);
    assert_int_equal(mp_bound_linear_solve(&linear, NULL), MP_OK);
    assert_true(linear.x[x] > 2.99 && linear.price[row] > 0.99);
    mp_bound_linear_clear(&linear);
    assert_true(mp_alloc_live < live);

    mp_graph *graph = layers_graph(1, 6, false);
    for (int k = 0; k < 5; k++) {
        const mp_bound whole = bound_of(graph, tiny_budget(graph, k), false, 1);
        mp_glpk_fail_after = 0;
        const mp_bound without = bound_of(graph, tiny_budget(graph, k), false, 1);
        mp_glpk_fail_after = -1;
        assert_true(without.infeasible == whole.infeasible && without.ticks <= whole.ticks);
    }
    mp_graph_free(graph);
}

/* Shares of a run are together never more than it takes, in no stretch between boundaries, and often as much. */
static void runs_are_shared_out(void **state)
{
    (void)state;
    enum { N = 4, PAIRS = N * (N + 1) / 2 };
    int n_whole = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        random_source random = {seed};
        int64_t ticks[N], run[PAIRS];
        mp_bound_pair pairs[PAIRS];
        mp_bound_interval interval = {.up = 4, .down = 1};
        mp_bound_overlap o = {.x = &interval, .n = N, .n_nodes = 1, .pairs = pairs, .ticks = ticks, .run = run};
        for (int i = 0; i < N; i++) ticks[i] = i && ticks[i - 1] ? 25 : random_chance(&random, 50) ? 25 : 0;
        for (int i = 0; i < N; i++)
            for (int j = i + 1; j <= N; j++)
                if (j == i + 1 || random_chance(&random, 60)) {
                    pairs[o.n_pairs] = (mp_bound_pair){i, j};
                    run[o.n_pairs++] = random_below(&random, seed % 2 ? 120 : 30);
                }
        mp_bound_overlap_share_out(&o, 0);
        for (int k = 0; k < N; k++) {
            int64_t sum = 0;
            for (int p = 0; p < o.n_pairs; p++) {
                assert_true(run[p] >= 0);
                if (pairs[p].from <= k && k < pairs[p].to) sum += run[p];
            }
            assert_true(sum <= 4 * ticks[k]);
            n_whole += sum == 100;
        }
    }
    assert_true(n_whole > 500);
}

/* Only the linear programme, between all nodes that may be boundaries: the ticks beyond first runs. Fails if that is above what
 * the cheapest plan takes. */
static int64_t overlap_alone(const mp_graph *graph, int64_t budget, int64_t extra)
{
    int64_t found = 0, worth[64];
    int nodes[64], n = 0;
    mp_bound_order *order;
    mp_bound_interval *interval;
    const mp_bound_options options = {.effort = 1};
    assert_int_equal(mp_bound_order_new(graph, true, &order, NULL), MP_OK);
    assert_int_equal(mp_bound_interval_new(order, budget, &interval, NULL), MP_OK);
    for (int i = 0; i < (int)graph->n_nodes; i++)
        if (graph->nodes[i].phase != MP_PHASE_FORWARD) nodes[n++] = i;
    assert_int_equal(mp_bound_overlap_within(interval, nodes, n, 100000, 2, &options, &found, worth, NULL), MP_OK);
    if (found > extra)
        fail_msg("%s, budget %lld: %lld ticks suffice, bound %lld", graph->name, (long long)budget, (long long)extra,
                 (long long)found);
    mp_bound_interval_free(interval);
    mp_bound_order_free(order);
    return found;
}

/* Sound on its own: a fault of prices would show here. */
static void overlapping_intervals_hold(void **state)
{
    (void)state;
    int64_t sum_ticks = 0, sum_overlap = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        mp_graph *graph = layers_graph(seed, 2 + (int)(seed % 3), seed % 3 == 0);
        const int64_t least = bound_of(graph, INT64_MAX, false, 0).ticks;
        for (int k = 0; k < 4; k++) {
            const int64_t budget = tiny_budget(graph, k);
            int64_t ticks;
            if (!oracle_exact(graph, budget, false, &ticks) || ticks < 0) continue;
            sum_ticks += ticks - least;
            sum_overlap += overlap_alone(graph, budget, ticks - least);
        }
        mp_graph_free(graph);
    }
    /* measured: 775 of 1833 ticks beyond one run of every node */
    if (sum_overlap * 100 < sum_ticks * 41) fail_msg("%lld of %lld ticks", (long long)sum_overlap, (long long)sum_ticks);
}

/* On chains it is often exact, so that a run which is counted in two intervals shows. */
static void overlapping_intervals_of_chains_hold(void **state)
{
    (void)state;
    int n_cases = 0, n_exact = 0;
    for (int n = 2; n <= 8; n++) {
        mp_graph *graph;
        assert_int_equal(chain_graph(n, 10, 0, true, &graph, NULL), MP_OK);
        const int64_t least = bound_of(graph, INT64_MAX, false, 0).ticks;
        for (int64_t budget = 30; budget < chain_keep_all_bytes(n, 10, 0); budget += 10) {
            int64_t ticks;
            assert_true(oracle_exact(graph, budget, false, &ticks));
            if (ticks < 0) continue;
            n_cases++;
            n_exact += overlap_alone(graph, budget, ticks - least) == ticks - least;
        }
        mp_graph_free(graph);
    }
    /* measured: 20 of 21 */
    if (n_exact < 20) fail_msg("%d of %d", n_exact, n_cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_are_minimal),
        cmocka_unit_test(linear_programmes_are_solved),
        cmocka_unit_test(long_programmes_are_broken_off),
        cmocka_unit_test(errors_of_glpk_become_a_status),
        cmocka_unit_test(bound_stands_without_programmes),
        cmocka_unit_test(runs_are_shared_out),
        cmocka_unit_test(overlapping_intervals_hold),
        cmocka_unit_test(overlapping_intervals_of_chains_hold),
    };
    return cmocka_run_group_tests_name("planner/bound, parts", tests, NULL, NULL);
}
