/* test_bound.c - planner/bound against the cheapest plan of tiny graphs: never above it; and its parts against brute force. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chain_graph.h"
#include "oracle_exact.h"
#include "planner/bound.h"
#include "planner/bound_linear.h"
#include "planner/bound_overlap.h"
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
                mp_bound quick = bound_of(graph, budget, any, 0), bound = bound_of(graph, budget, any, seed % 20 ? 1 : 4);
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
    /* measured: 726 of 1249 feasible cases tight in this order, 267 of the 790 that take more than every node once; 147 of 251
     * proved infeasible; in any order 759 of 1328, 137 of 706, 2 of 172. What is missing is nearly always the ticks of slower
     * forms. */
    assert_int_equal(n_given_up, 0);
    if (n_tight[0] < 715 || n_tight_dear[0] < 256 || n_proved[0] < 140 || n_tight[1] < 750 || n_tight_dear[1] < 128)
        fail_msg("this order: %d of %d feasible tight, %d of %d dear, %d of %d proved; any order: %d of %d, %d of %d, %d of %d",
                 n_tight[0], n_feasible[0], n_tight_dear[0], n_dear[0], n_proved[0], n_none[0], n_tight[1], n_feasible[1],
                 n_tight_dear[1], n_dear[1], n_proved[1], n_none[1]);
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

/* Of too many nodes for all pairs only what is around the turn-around is known; that is sound, and worth as much as one
 * interval from there. */
static void bound_of_many_nodes_holds(void **state)
{
    (void)state;
    int n_dear = 0, n_better = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = tiny_graph(seed);
        for (int k = 0; k < 5; k++) {
            const int64_t budget = tiny_budget(graph, k), least = bound_of(graph, INT64_MAX, true, 0).ticks;
            for (int any = 0; any < 2; any++) {
                int64_t ticks;
                assert_true(oracle_exact(graph, budget, any, &ticks));
                mp_bound_most_nodes = 1;
                const mp_bound bound = bound_of(graph, budget, any, 4);
                mp_bound_most_nodes = 32768;
                if (ticks < 0) continue;
                if (bound.infeasible || bound.ticks > ticks)
                    fail_msg("seed %llu, budget %lld: %lld ticks suffice, bound %lld", (unsigned long long)seed,
                             (long long)budget, (long long)ticks, (long long)bound.ticks);
                n_dear += ticks > least;
                n_better += bound.ticks > least;
            }
        }
        mp_graph_free(graph);
    }
    if (n_better < 20) fail_msg("%d of %d", n_better, n_dear);
    mp_graph *graph;
    assert_int_equal(chain_graph(40, 10, 0, true, &graph, NULL), MP_OK);
    const int64_t single = bound_of(graph, 30, false, 0).ticks;
    mp_bound_most_nodes = 1;
    assert_int_equal(bound_of(graph, 30, false, 0).ticks, single);
    assert_int_equal(bound_of(graph, 30, true, 4).ticks, single);
    mp_bound_most_nodes = 32768;
    mp_graph_free(graph);
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

static int add_storage(mp_graph *graph, random_source *random, mp_kind kind)
{
    mp_storage *s;
    assert_int_equal(mp_graph_storage(graph, &s, NULL), MP_OK);
    s->kind = kind;
    s->bytes = kind == MP_KIND_INPUT ? 0 : kind == MP_KIND_ACTIVATION ? 4 + random_below(random, 9) : 1;
    return (int)graph->n_storages - 1;
}

/* A node that reads a (and b, or, after one tick more, c in place of b; -1: none) and writes a storage. */
static void add_node(mp_graph *graph, mp_phase phase, int ticks, int a, int b, int c, int write)
{
    mp_node *node;
    assert_int_equal(mp_graph_node(graph, &node, NULL), MP_OK);
    node->phase = phase;
    node->n_forms = c >= 0 ? 2 : 1;
    node->forms = mp_pool_alloc(graph->pool, node->n_forms, sizeof *node->forms);
    for (size_t k = 0; k < node->n_forms; k++) {
        mp_form *f = &node->forms[k];
        f->ticks = ticks + (int)k;
        f->n_reads = b >= 0 ? 2 : 1;
        f->reads = mp_graph_list(graph, (int[]){a, k ? c : b}, f->n_reads);
        f->n_writes = 1;
        f->writes = mp_graph_list(graph, &write, 1);
    }
}

/* Layers of a product, a normalization whose backward reads its input or, with `choice`, its output, and here and there an
 * activation. */
static mp_graph *layers_graph(uint64_t seed, int n, bool choice)
{
    random_source random = {seed};
    mp_graph *graph;
    int in[9], x[9], y[9], out[9];
    assert_int_equal(mp_graph_new("layers", &graph, NULL), MP_OK);
    in[0] = add_storage(graph, &random, MP_KIND_INPUT);
    for (int l = 0; l < n; l++) {
        x[l] = add_storage(graph, &random, MP_KIND_ACTIVATION);
        y[l] = out[l] = add_storage(graph, &random, MP_KIND_ACTIVATION);
        add_node(graph, MP_PHASE_FORWARD, 4 + random_below(&random, 8), in[l], -1, -1, x[l]);
        add_node(graph, MP_PHASE_FORWARD, 1 + random_below(&random, 3), x[l], -1, -1, y[l]);
        if (random_chance(&random, 50)) {
            out[l] = add_storage(graph, &random, MP_KIND_ACTIVATION);
            add_node(graph, MP_PHASE_FORWARD, 1, y[l], -1, -1, out[l]);
        }
        in[l + 1] = out[l];
    }
    int gradient = add_storage(graph, &random, MP_KIND_ACTIVATION_GRADIENT);
    add_node(graph, MP_PHASE_LOSS, 1, out[n - 1], -1, -1, gradient);
    for (int l = n - 1; l >= 0; l--) {
        for (int k = out[l] == y[l]; k < 3; k++) {
            int made = add_storage(graph, &random, MP_KIND_ACTIVATION_GRADIENT);
            int read = k == 0 ? out[l] : k == 1 ? x[l] : in[l];
            add_node(graph, MP_PHASE_BACKWARD, 2, gradient, read, k == 1 && choice ? y[l] : -1, made);
            gradient = made;
        }
    }
    assert_int_equal(mp_graph_finish(graph, NULL), MP_OK);
    return graph;
}

/* Only the linear programme, between all nodes that may be boundaries: sound on its own. A fault of its prices would
 * show here. */
static void overlapping_intervals_hold(void **state)
{
    (void)state;
    int64_t sum_ticks = 0, sum_overlap = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        mp_graph *graph = layers_graph(seed, 3 + (int)(seed % 3), seed % 3 == 0);
        const int64_t least = bound_of(graph, INT64_MAX, false, 0).ticks;
        for (int k = 0; k < 4; k++) {
            const int64_t budget = tiny_budget(graph, k);
            int64_t ticks, found = 0, worth[64];
            int nodes[64], n = 0;
            mp_bound_order *order;
            mp_bound_interval *interval;
            const mp_bound_options options = {.effort = 1};
            if (!oracle_exact(graph, budget, false, &ticks) || ticks < 0) continue;
            assert_int_equal(mp_bound_order_new(graph, true, &order, NULL), MP_OK);
            assert_int_equal(mp_bound_interval_new(order, budget, &interval, NULL), MP_OK);
            for (int i = 0; i < (int)graph->n_nodes; i++)
                if (graph->nodes[i].phase != MP_PHASE_FORWARD) nodes[n++] = i;
            assert_int_equal(mp_bound_overlap_within(interval, nodes, n, 100000, 2, &options, &found, worth, NULL), MP_OK);
            if (least + found > ticks)
                fail_msg("seed %llu, budget %lld: %lld ticks suffice, bound %lld", (unsigned long long)seed, (long long)budget,
                         (long long)ticks, (long long)(least + found));
            sum_ticks += ticks - least;
            sum_overlap += found;
            mp_bound_interval_free(interval);
            mp_bound_order_free(order);
        }
        mp_graph_free(graph);
    }
    /* measured: 3279 of 6549 ticks beyond one run of every node */
    if (sum_overlap * 100 < sum_ticks * 49) fail_msg("%lld of %lld ticks", (long long)sum_overlap, (long long)sum_ticks);
}

static void bound_is_never_above_the_cheapest_plan_of_layers(void **state)
{
    (void)state;
    int64_t extra[2] = {0}, bounded[2] = {0}; /* without and with the choice */
    for (uint64_t seed = 1; seed <= 160; seed++) {
        const bool choice = seed % 2;
        mp_graph *graph = layers_graph(seed, 2 + (int)(seed % 3), choice);
        int64_t least = bound_of(graph, INT64_MAX, false, 0).ticks;
        for (int k = 0; k < 5; k++) {
            int64_t ticks, budget = tiny_budget(graph, k);
            assert_true(oracle_exact(graph, budget, false, &ticks));
            mp_bound bound = bound_of(graph, budget, false, 3);
            if (ticks < 0) continue;
            if (bound.infeasible || bound.ticks > ticks)
                fail_msg("seed %llu, budget %lld: %lld ticks suffice, bound %lld", (unsigned long long)seed, (long long)budget,
                         (long long)ticks, (long long)bound.ticks);
            extra[choice] += ticks - least;
            bounded[choice] += bound.ticks - least;
        }
        mp_graph_free(graph);
    }
    /* measured: 3164 of 4069 ticks beyond one run of every node; with the choice 1548 of 2817 */
    if (bounded[0] * 100 < extra[0] * 75 || bounded[1] * 100 < extra[1] * 52)
        fail_msg("%lld of %lld ticks, with the choice %lld of %lld", (long long)bounded[0], (long long)extra[0],
                 (long long)bounded[1], (long long)extra[1]);
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
    for (uint64_t seed = 1; seed <= 60; seed++) {
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
    const int64_t full = bound_of(graph, 30, false, 1).ticks;
    const int64_t single = bound_of(graph, 30, false, 0).ticks;
    assert_true(full > single && single > 40 + 1 + 80);
    for (int k = 0, most = 0; k < 100000 && last.ticks < full; k = 1 + 2 * k) {
        most = k;
        const mp_bound_options options = {.effort = 1, .stop = stop_at, .data = &most};
        assert_int_equal(mp_bound_within(graph, 30, &options, &bound, NULL), MP_OK);
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
        cmocka_unit_test(bound_of_many_nodes_holds),
        cmocka_unit_test(linear_programmes_are_solved),
        cmocka_unit_test(overlapping_intervals_hold),
        cmocka_unit_test(bound_is_never_above_the_cheapest_plan_of_layers),
        cmocka_unit_test(bound_of_chains_is_exact_but_for_third_runs),
        cmocka_unit_test(bound_is_the_sum_over_nodes_when_memory_is_plenty),
        cmocka_unit_test(bound_is_never_above_random_schedules),
        cmocka_unit_test(a_stopped_bound_holds),
        cmocka_unit_test(bound_survives_every_allocation_failure),
    };
    return cmocka_run_group_tests_name("planner/bound", tests, NULL, NULL);
}
