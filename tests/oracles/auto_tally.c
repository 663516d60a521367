/* auto_tally.c - solves random graphs with `auto`, and compares the plans with the fastest plans. */
#include "tests/oracles/auto_tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "memplan/check.h"
#include "memplan/makespan.h"
#include "memplan/solver.h"
#include "tests/oracles/oracle_exact.h"

int oracle_graphs(int usual)
{
    const char *asked = getenv("MEMPLAN_ORACLE_GRAPHS");
    return asked ? (int)strtol(asked, NULL, 10) : usual;
}

int64_t oracle_ticks(const mp_graph *graph, const int64_t *budgets, bool issues, uint64_t seed)
{
    mp_step *steps;
    size_t n;
    int64_t ticks;
    mp_timeline *timeline = NULL;
    mp_error err = {0};
    if (!oracle_in_tiers(graph, budgets, issues, &ticks, &steps, &n)) return TOO_MANY;
    if (ticks < 0) return -1;
    if (mp_timeline_build(graph, steps, n, &timeline, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
    assert_int_equal(timeline->ticks, ticks);
    assert_true(timeline->peak_bytes <= budgets[0] && timeline->tiers[1].peak_bytes <= budgets[1]);
    mp_timeline_free(timeline);
    free(steps);
    return ticks;
}

void tally_auto(auto_tally *x, const mp_graph *graph, int64_t budget_bytes, int64_t least_ticks, uint64_t seed)
{
    mp_answer answer;
    mp_error err = {0};
    mp_recomputation again;
    const mp_request request = {.graph = graph, .budget_bytes = budget_bytes, .wants_bound = true};
    x->n++;
    if (mp_solve(&request, &answer, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
    const mp_plan *plan = answer.plan;
    if (!plan != (least_ticks < 0)) fail_msg("seed %d: auto finds %s plan", (int)seed, plan ? "a" : "no");
    if (plan) {
        if (answer.bound.ticks > least_ticks) fail_msg("seed %d: the bound is too high", (int)seed);
        if (mp_plan_check(graph, plan, &err) != MP_OK) fail_msg("seed %d: %s", (int)seed, err.message);
        assert_int_equal(mp_makespan_recomputation(graph, plan->steps, plan->n_steps, &again, NULL), MP_OK);
        x->n_plans++;
        x->n_optimal += plan->ticks == least_ticks;
        x->n_near += plan->ticks * 20 <= least_ticks * 21;
        x->n_hidden += again.hidden_ticks > 0;
    }
    mp_answer_free(&answer);
}
