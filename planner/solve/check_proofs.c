/* check_proofs.c - what a plan claims of all other plans, proved anew. */
#include "planner/solve/check_proofs.h"

#include <string.h>

#include "memplan/floor.h"
#include "memplan/solver.h"

static mp_status check_floor(const mp_graph *graph, const mp_plan *plan, mp_error *err)
{
    int64_t floor_bytes;
    int unused;
    mp_status st = plan->floor_bytes < 0 ? MP_OK : mp_floor(graph, &floor_bytes, &unused, err);
    if (st != MP_OK || plan->floor_bytes < 0 || plan->floor_bytes <= floor_bytes) return st;
    return MP_FAIL(err, MP_REFUTED, "the plan claims that nothing fits below %lld bytes; what is proved is %lld",
                   (long long)plan->floor_bytes, (long long)floor_bytes);
}

/* Of plans within the budget of this one. */
static mp_status check_bound(const mp_graph *graph, const mp_plan *plan, bool keeps_order, mp_error *err)
{
    static const mp_effort efforts[] = {MP_EFFORT_NORMAL, MP_EFFORT_THOROUGH};
    double proved = (double)plan->baseline_ticks * graph->tick_seconds; /* every node once, in its fastest alternative */
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts && plan->lower_bound_seconds > proved * (1 + 1e-9); i++) {
        mp_answer answer = {0};
        const mp_request request = {.graph = graph,
                                    .budget_bytes = plan->budget_bytes < 0 ? INT64_MAX : plan->budget_bytes,
                                    .effort = efforts[i],
                                    .keep_order = keeps_order,
                                    .wants_bound = true};
        MP_CHECK(mp_solve(&request, &answer, err));
        const double seconds = (double)answer.bound.ticks * graph->tick_seconds;
        if (seconds > proved) proved = seconds;
        mp_answer_free(&answer);
    }
    MP_ENSURE(plan->lower_bound_seconds <= proved * (1 + 1e-9), err, MP_REFUTED,
              "the plan claims that nothing takes less than %.17g seconds; what is proved is %.17g", plan->lower_bound_seconds,
              proved);
    return MP_OK;
}

mp_status mp_plan_check_proofs(const mp_graph *graph, const mp_plan *plan, bool proves_bound, mp_error *err)
{
    const char *covers = plan->bound_covers ? plan->bound_covers : "";
    const bool keeps_order = !strcmp(covers, mp_bound_orders_text(MP_BOUND_THIS_ORDER));
    MP_ENSURE(!covers[0] || keeps_order || !strcmp(covers, mp_bound_orders_text(MP_BOUND_ANY_ORDER)), err, MP_REFUTED,
              "the plan's bound covers \"%.60s\"; there are \"%s\" and \"%s\"", covers,
              mp_bound_orders_text(MP_BOUND_ANY_ORDER), mp_bound_orders_text(MP_BOUND_THIS_ORDER));
    MP_CHECK(check_floor(graph, plan, err));
    if (proves_bound && plan->lower_bound_seconds >= 0) MP_CHECK(check_bound(graph, plan, keeps_order, err));
    return MP_OK;
}
