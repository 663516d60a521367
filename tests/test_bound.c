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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_is_never_above_the_cheapest_plan),
    };
    return cmocka_run_group_tests_name("planner/bound", tests, NULL, NULL);
}
