/* test_bound_stages.c - the bound with some stages switched off: it holds, it never exceeds the full bound if only the last
 * stage is off, and disabled stages do no work. The report must be consistent with the bound. */
#include "estimator/base/memory.h"
#include "tests/cases/bound_case.h"
#include "tests/cases/test.h"
#include "tests/oracles/oracle_exact.h"

static mp_bound bound_without(const mp_graph *graph, int64_t budget_bytes, bool any_order, int effort, unsigned off,
                              mp_bound_report *report)
{
    mp_bound bound;
    mp_bound_report_init(report);
    const mp_bound_options options = {.any_order = any_order, .effort = effort, .off = off, .report = report};
    assert_int_equal(mp_bound_within(graph, budget_bytes, &options, &bound, NULL), MP_OK);
    return bound;
}

static bool has_work(const mp_bound_result *r)
{
    return r->work.n_cuts || r->work.n_pivots || r->work.n_states;
}

/* Checks a bound and its report: disabled stages did nothing, and the bound is the best result of the other stages. */
static void check_report(const mp_bound *bound, const mp_bound_report *report, unsigned off)
{
    const mp_bound_options options = {.off = off};
    int64_t most = 0;
    for (int s = 0; s < MP_BOUND_N_STAGES; s++) {
        const mp_bound_result *r = &report->stages[s];
        if (!mp_bound_is_on(&options, (mp_bound_stage)s))
            assert_true(r->ticks == -1 && !r->is_infeasible && !has_work(r) && bound->stage != (mp_bound_stage)s);
        if (r->ticks > most) most = r->ticks;
    }
    if (bound->infeasible) {
        assert_true(report->stages[bound->stage].is_infeasible);
        return;
    }
    assert_int_equal(bound->ticks, report->least_ticks + most);
    assert_int_equal(report->stages[bound->stage].ticks, most);
    if (bound->from >= 0) assert_true(report->live_in_bytes > report->free_bytes || !report->n);
}

/* Returns the k-th set of disabled stages: none, each stage alone, all, and all except interval, overlap and one other stage.
 */
static unsigned choice_of_stages(int k)
{
    const unsigned all = (1u << MP_BOUND_SEARCH) - 2;
    if (k < MP_BOUND_SEARCH) return k ? 1u << k : 0;
    if (k == MP_BOUND_SEARCH) return all;
    return all & ~(1u << MP_BOUND_INTERVAL) & ~(1u << MP_BOUND_OVERLAP) & ~(1u << (k - MP_BOUND_SEARCH));
}

TEST(with_any_stage_off_it_holds)
{
    int n_lower[MP_BOUND_SEARCH] = {0};
    for (uint64_t seed = 1; seed <= 150; seed++) {
        mp_graph *graph = tiny_graph(seed);
        for (int k = -1; k < 5; k++) { /* -1: a budget below the floor */
            const int64_t budget = tiny_budget(graph, k);
            const bool any_order = (seed + (uint64_t)(k + 1)) % 2;
            int64_t ticks;
            mp_bound_report report;
            assert_true(oracle_exact(graph, budget, any_order, &ticks));
            const mp_bound whole = bound_without(graph, budget, any_order, 2, 0, &report);
            mp_bound_report_clear(&report);
            for (int c = 0; c < 2 * MP_BOUND_SEARCH; c++) {
                const unsigned off = choice_of_stages(c);
                const mp_bound bound = bound_without(graph, budget, any_order, 2, off, &report);
                if (ticks >= 0 && (bound.infeasible || bound.ticks > ticks))
                    fail_msg("seed %llu, budget %lld, off %x: %lld ticks suffice, bound %lld", (unsigned long long)seed,
                             (long long)budget, off, (long long)ticks, (long long)bound.ticks);
                check_report(&bound, &report, off);
                mp_bound_report_clear(&report);
                if (c < MP_BOUND_SEARCH && (bound.ticks < whole.ticks || bound.infeasible < whole.infeasible)) n_lower[c]++;
            }
        }
        mp_graph_free(graph);
    }
    assert_true(n_lower[MP_BOUND_INTERVAL] > 0 && n_lower[MP_BOUND_FLOOR] > 0);
}

/* No other stage uses the result of the last stage, so without it the bound is the best result of the others. Results of other
 * stages influence later stages, so nothing is asserted about them. */
TEST(the_last_stage_only_adds)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        mp_graph *graph = layers_graph(seed, 8, seed % 2);
        const int64_t budget = tiny_budget(graph, 1 + (int)(seed % 3));
        mp_bound_report whole_report, report;
        const mp_bound whole = bound_without(graph, budget, false, 2, 0, &whole_report);
        const mp_bound bound = bound_without(graph, budget, false, 2, 1u << MP_BOUND_DEMAND, &report);
        check_report(&whole, &whole_report, 0);
        check_report(&bound, &report, 1u << MP_BOUND_DEMAND);
        for (int s = 0; s < MP_BOUND_DEMAND; s++) assert_int_equal(report.stages[s].ticks, whole_report.stages[s].ticks);
        assert_true(bound.ticks <= whole.ticks);
        mp_bound_report_clear(&whole_report);
        mp_bound_report_clear(&report);
        mp_graph_free(graph);
    }
}

TEST(names_find_their_stages)
{
    mp_bound_stage stage;
    for (int s = 0; s < MP_BOUND_N_STAGES; s++) {
        const bool has_switch = s != MP_BOUND_NODES && s != MP_BOUND_SEARCH;
        assert_int_equal(mp_bound_stage_find(mp_bound_stage_name((mp_bound_stage)s), &stage), has_switch);
        if (has_switch) assert_int_equal(stage, s);
    }
    assert_false(mp_bound_stage_find("", &stage));
}

TEST(reports_survive_every_allocation_failure)
{
    mp_graph *graph = tiny_graph(7);
    const int64_t budget = tiny_budget(graph, 1);
    const long live = mp_alloc_live;
    mp_status st = MP_NOMEM;
    for (long k = 0; st != MP_OK; k++) {
        mp_bound bound;
        mp_bound_report report;
        mp_bound_report_init(&report);
        const mp_bound_options options = {.effort = 2, .report = &report};
        mp_alloc_budget = k;
        st = mp_bound_within(graph, budget, &options, &bound, NULL);
        mp_alloc_budget = -1;
        assert_true(st == MP_OK || st == MP_NOMEM);
        mp_bound_report_clear(&report);
        assert_int_equal(mp_alloc_live, live);
    }
    mp_graph_free(graph);
}
