/* test_bound.c - planner/bound against the cheapest plan of tiny graphs: never above it; and its parts against brute force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chain_graph.h"
#include "oracle_exact.h"
#include "planner/bound.h"
#include "planner/check.h"
#include "planner/floor.h"
#include "planner/mincut.h"
#include "random_graph.h"

static int64_t keep_all_peak(const mp_graph *graph)
{
    mp_timeline *tl;
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    mp_keep_all(graph, steps);
    assert_int_equal(mp_timeline_build(graph, steps, graph->n_nodes, &tl, NULL), MP_OK);
    int64_t peak = tl->peak_bytes;
    mp_timeline_free(tl);
    mp_free(steps);
    return peak;
}

static mp_bound bound_of(const mp_graph *graph, int64_t budget_bytes, bool any_order, int effort)
{
    mp_bound bound;
    const mp_bound_options options = {.any_order = any_order, .effort = effort};
    assert_int_equal(mp_bound_within(graph, budget_bytes, &options, &bound, NULL), MP_OK);
    assert_string_equal(bound.covers, any_order ? "any-order" : "this-order");
    return bound;
}

/* Graph number `seed` of the comparisons, and its k-th budget of five: from below what is needed to beyond keep-all. */
static mp_graph *tiny_graph(uint64_t seed)
{
    bool plain = seed % 5 == 0;
    return random_graph(seed, plain ? 5 + (int)(seed % 4) : 2 + (int)(seed % 4), (mp_fuse)(seed % MP_N_FUSES), plain);
}

static int64_t tiny_budget(const mp_graph *graph, int k)
{
    int64_t floor_bytes, peak_bytes = keep_all_peak(graph);
    int node;
    assert_int_equal(mp_floor(graph, &floor_bytes, &node, NULL), MP_OK);
    return floor_bytes + (peak_bytes - floor_bytes) * k / 5;
}

static void bound_is_never_above_the_cheapest_plan(void **state)
{
    (void)state;
    int n_feasible[2] = {0}, n_tight[2] = {0}, n_dear[2] = {0}, n_tight_dear[2] = {0}, n_none[2] = {0}, n_proved[2] = {0};
    int n_given_up = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mp_graph *graph = tiny_graph(seed);
        for (int k = 0; k < 5; k++) {
            int64_t budget = tiny_budget(graph, k), most = bound_of(graph, INT64_MAX, true, 0).ticks;
            for (int any = 0; any < 2; any++) {
                int64_t ticks;
                if (!oracle_exact(graph, budget, any, &ticks)) {
                    n_given_up++;
                    continue;
                }
                mp_bound quick = bound_of(graph, budget, any, 0), bound = bound_of(graph, budget, any, 1);
                if (ticks >= 0 && (bound.infeasible || quick.infeasible))
                    fail_msg("seed %llu, budget %lld, %s: a plan fits", (unsigned long long)seed, (long long)budget,
                             bound.covers);
                if (ticks >= 0 && (bound.ticks > ticks || quick.ticks > bound.ticks))
                    fail_msg("seed %llu, budget %lld, %s: %lld ticks suffice, bounds %lld and %lld", (unsigned long long)seed,
                             (long long)budget, bound.covers, (long long)ticks, (long long)quick.ticks, (long long)bound.ticks);
                assert_true(bound.ticks >= most);
                n_none[any] += ticks < 0;
                n_proved[any] += bound.infeasible;
                n_feasible[any] += ticks >= 0;
                n_tight[any] += ticks >= 0 && bound.ticks == ticks;
                n_dear[any] += ticks > most;
                n_tight_dear[any] += ticks > most && bound.ticks == ticks;
            }
        }
        mp_graph_free(graph);
    }
    for (int any = 0; any < 2; any++)
        print_message("any %d: feasible %d tight %d, dear %d tight %d, none %d proved %d, given up %d\n", any, n_feasible[any],
                      n_tight[any], n_dear[any], n_tight_dear[any], n_none[any], n_proved[any], n_given_up);
}

/* Equal layers: exact but where a layer is best made a third time. */
static void bound_of_chains_is_exact_but_for_third_runs(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        mp_graph *graph;
        assert_int_equal(chain_graph(n, 10, 100, true, &graph, NULL), MP_OK);
        for (int64_t budget = 100; budget <= chain_keep_all_bytes(n, 10, 100); budget += 10) {
            for (int any = 0; any < 2; any++) {
                int64_t ticks, short_of = n < 7 || budget != 140 ? 0 : n - 6;
                assert_true(oracle_exact(graph, budget, any, &ticks));
                mp_bound bound = bound_of(graph, budget, any, 1);
                assert_int_equal(bound.infeasible, ticks < 0);
                if (ticks >= 0 && (bound.ticks > ticks || bound.ticks < ticks - short_of))
                    fail_msg("%d layers, budget %lld: %lld ticks, bound %lld", n, (long long)budget, (long long)ticks,
                             (long long)bound.ticks);
            }
        }
        mp_graph_free(graph);
    }
}

/* At keep-all's peak every node runs once. */
static void bound_is_the_sum_over_nodes_when_memory_is_plenty(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        mp_graph *graph = random_graph(seed, 12, (mp_fuse)(seed % MP_N_FUSES), seed % 4 == 0);
        int64_t least = 0;
        for (size_t i = 0; i < graph->n_nodes; i++) {
            int64_t ticks = INT64_MAX;
            for (size_t k = 0; k < graph->nodes[i].n_forms; k++)
                if (graph->nodes[i].forms[k].ticks < ticks) ticks = graph->nodes[i].forms[k].ticks;
            least += ticks;
        }
        assert_int_equal(bound_of(graph, keep_all_peak(graph), seed % 2, 1).ticks, least);
        assert_int_equal(bound_of(graph, INT64_MAX, seed % 2, 1).ticks, least);
        assert_true(bound_of(graph, mp_graph_static_bytes(graph) - 1, seed % 2, 1).infeasible);
        mp_graph_free(graph);
    }
}

/* Larger graphs: random schedules with many recomputations. */
static void bound_is_never_above_random_schedules(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        mp_graph *graph = random_graph(seed, 4 + (int)(seed % 20), (mp_fuse)(seed % MP_N_FUSES), seed % 7 == 0);
        for (uint64_t k = 0; k < 4; k++) {
            size_t n;
            mp_timeline *tl;
            mp_step *steps = random_schedule(graph, seed + 1000 * k, (int)k * 10, &n);
            assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
            mp_bound bound = bound_of(graph, tl->peak_bytes, true, 1);
            if (bound.infeasible || bound.ticks > tl->ticks)
                fail_msg("seed %llu, schedule %llu", (unsigned long long)seed, (unsigned long long)k);
            mp_timeline_free(tl);
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
}

/* The oracle's plans pass the checker and fit; with exactly their peak as the budget they cost the same; a smaller freedom or a
 * smaller budget costs no less; and no random schedule of the same peak is cheaper. */
static void oracle_agrees_with_the_timeline(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        mp_graph *graph = tiny_graph(seed);
        mp_timeline *tl;
        for (int k = 0; k < 5; k++) {
            int64_t budget = tiny_budget(graph, k), peak_bytes, before = 0;
            for (int any = 1; any >= 0; any--) {
                int64_t ticks, again;
                mp_step *steps;
                mp_plan *plan;
                size_t n;
                assert_true(oracle_exact_plan(graph, budget, any, &ticks, &steps, &n, &peak_bytes));
                if (ticks < 0) break;
                assert_true(ticks >= before);
                before = ticks;
                assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
                assert_true(tl->peak_bytes <= peak_bytes && peak_bytes <= budget);
                assert_int_equal(tl->ticks, ticks);
                assert_true(oracle_exact(graph, tl->peak_bytes, any, &again));
                assert_int_equal(again, ticks);
                assert_int_equal(mp_plan_new(graph, "oracle", steps, n, &plan, NULL), MP_OK);
                assert_int_equal(mp_plan_check(graph, plan, NULL), MP_OK);
                mp_plan_free(plan);
                mp_timeline_free(tl);
                free(steps);
            }
        }
        for (uint64_t k = 0; k < 10; k++) {
            size_t n;
            int64_t ticks;
            mp_step *steps = random_schedule(graph, seed + 1000 * k, (int)k, &n);
            assert_int_equal(mp_timeline_build(graph, steps, n, &tl, NULL), MP_OK);
            assert_true(oracle_exact(graph, tl->peak_bytes, true, &ticks));
            if (ticks < 0 || ticks > tl->ticks)
                fail_msg("seed %llu, schedule %llu", (unsigned long long)seed, (unsigned long long)k);
            mp_timeline_free(tl);
            mp_free(steps);
        }
        mp_graph_free(graph);
    }
}

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

static bool stop_at(void *data)
{
    return (*(int *)data)-- <= 0;
}

/* Stopped anywhere, the bound is a bound, and no better than that of the whole search. */
static void a_stopped_bound_holds(void **state)
{
    (void)state;
    mp_graph *graph;
    mp_bound bound, last = {0};
    assert_int_equal(chain_graph(40, 10, 0, true, &graph, NULL), MP_OK);
    const int64_t full = bound_of(graph, 120, false, 1).ticks;
    assert_true(full > 40 + 1 + 80);
    for (int k = 0, most = 0; k < 100000 && last.ticks < full; k = 1 + 2 * k) {
        most = k;
        const mp_bound_options options = {.effort = 1, .stop = stop_at, .data = &most};
        assert_int_equal(mp_bound_within(graph, 120, &options, &bound, NULL), MP_OK);
        assert_true(bound.ticks <= full && bound.ticks >= 40 + 1 + 80 && !bound.infeasible);
        last = bound;
    }
    assert_int_equal(last.ticks, full);
    mp_graph_free(graph);
}

static void bound_survives_every_allocation_failure(void **state)
{
    (void)state;
    mp_graph *graph = random_graph(9, 8, MP_FUSE_NONE, false);
    const int64_t budget = tiny_budget(graph, 1);
    long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_bound bound;
        mp_alloc_budget = k;
        st = mp_bound_within(graph, budget, NULL, &bound, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_are_minimal),
        cmocka_unit_test(oracle_agrees_with_the_timeline),
        cmocka_unit_test(bound_is_never_above_the_cheapest_plan),
        cmocka_unit_test(bound_of_chains_is_exact_but_for_third_runs),
        cmocka_unit_test(bound_is_the_sum_over_nodes_when_memory_is_plenty),
        cmocka_unit_test(bound_is_never_above_random_schedules),
        cmocka_unit_test(a_stopped_bound_holds),
        cmocka_unit_test(bound_survives_every_allocation_failure),
    };
    return cmocka_run_group_tests_name("planner/bound", tests, NULL, NULL);
}
