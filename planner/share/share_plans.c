/* share_plans.c - computes the options of one job on a shared card: plans for several budgets, and lower bounds on the ticks
 * for the budgets in between. */
#include <math.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "memplan/arena_solve.h"
#include "memplan/search.h"
#include "memplan/smallest.h"
#include "memplan/studies/share.h"
#include "planner/offload/state.h"

typedef struct planner {
    const mp_share_plans_request *request;
    mp_share_plans *found;
    size_t n_searches, n_expected;
} planner;

static bool tell(planner *x, const mp_progress *search)
{
    const mp_share_plans_request *r = x->request;
    if (r->progress && !r->progress(x->n_searches, x->n_expected, search, r->progress_data)) x->found->stopped = true;
    return !x->found->stopped;
}

static bool on_progress(const mp_progress *search, void *data)
{
    return tell(data, search);
}

/* Converts the ticks of one step to the ticks of all steps of the job, in the tick length that the result uses. Rounds up or
 * down. Returns -1 on overflow. */
static int64_t in_unit(const planner *x, int64_t ticks, bool up)
{
    const mp_share_plans_request *r = x->request;
    const double MOST = 0x1p62;
    int64_t all;
    if (!mp_multiply(ticks, r->n_steps > 0 ? r->n_steps : 1, &all)) return -1;
    if (r->unit_seconds <= 0 || r->unit_seconds == r->graph->tick_seconds) return (double)all < MOST ? all : -1;
    const double units = (double)all * (r->graph->tick_seconds / r->unit_seconds);
    return units < MOST ? (int64_t)(up ? ceil(units) : floor(units)) : -1;
}

static mp_status too_long(const planner *x, mp_error *err)
{
    return MP_FAIL(err, MP_LIMIT, "the steps of %s take too long together", x->request->graph->name);
}

static mp_request request_of(planner *x)
{
    const mp_share_plans_request *r = x->request;
    return (mp_request){.graph = r->graph,
                        .problem = r->problem,
                        .solver = r->solver,
                        .seed = r->seed,
                        .moves = r->moves,
                        .effort = r->effort,
                        .keep_order = r->keep_order,
                        .wants_bound = true,
                        .progress = on_progress,
                        .progress_data = x};
}

/* Inserts a plan into the options, unless another plan needs at most as many bytes and ticks. Releases the plans that are worse
 * than the new plan. If the plan was inserted, *plan becomes NULL. */
static mp_status take(planner *x, mp_plan **plan, mp_error *err)
{
    mp_share_plans *f = x->found;
    const mp_share_option o = {mp_plan_need(*plan), in_unit(x, (*plan)->ticks, true)};
    size_t at = 0, n_beaten = 0, room[2] = {f->n, f->n};
    if (o.ticks < 0) return too_long(x, err);
    while (at < f->n && f->options[at].bytes < o.bytes) at++;
    const bool is_beaten = (at && f->options[at - 1].ticks <= o.ticks) ||
                           (at < f->n && f->options[at].bytes == o.bytes && f->options[at].ticks <= o.ticks);
    if (is_beaten) return MP_OK;
    MP_ENSURE(mp_grow(&f->options, &room[0], f->n + 1, sizeof *f->options) &&
                  mp_grow(&f->plans, &room[1], f->n + 1, sizeof *f->plans),
              err, MP_NOMEM, "out of memory for %zu plans", f->n + 1);
    for (; at + n_beaten < f->n && f->options[at + n_beaten].ticks >= o.ticks; n_beaten++)
        mp_plan_free(f->plans[at + n_beaten]);
    const size_t n_after = f->n - at - n_beaten;
    memmove(&f->options[at + 1], &f->options[at + n_beaten], n_after * sizeof *f->options);
    memmove(&f->plans[at + 1], &f->plans[at + n_beaten], n_after * sizeof *f->plans);
    f->options[at] = o;
    f->plans[at] = *plan;
    f->n = at + 1 + n_after;
    *plan = NULL;
    return MP_OK;
}

/* Inserts a lower bound: no plan within this budget, and so no plan within a smaller budget, takes fewer ticks. */
static mp_status take_bound(mp_share_plans *f, int64_t budget_bytes, int64_t ticks, mp_error *err)
{
    size_t n_raised = 0, room = f->n_bounds;
    while (n_raised < f->n_bounds && f->bounds[n_raised].bytes <= budget_bytes) n_raised++;
    if (!n_raised || f->bounds[n_raised - 1].ticks >= ticks) return MP_OK;
    MP_ENSURE(mp_grow(&f->bounds, &room, f->n_bounds + 1, sizeof *f->bounds), err, MP_NOMEM, "out of memory for bounds");
    /* the lower bounds for budgets up to budget_bytes that are below `ticks` are merged into one; for larger budgets, the last
     * of them stays valid */
    mp_share_option *b = f->bounds;
    size_t first = n_raised;
    while (first && b[first - 1].ticks <= ticks) first--;
    const mp_share_option raised = {b[first].bytes, ticks}, rest = {budget_bytes + 1, b[n_raised - 1].ticks};
    const size_t n_after = f->n_bounds - n_raised, has_rest = !n_after || b[n_raised].bytes > rest.bytes;
    memmove(&b[first + 1 + has_rest], &b[n_raised], n_after * sizeof *b);
    b[first] = raised;
    if (has_rest) b[first + 1] = rest;
    f->n_bounds = first + 1 + has_rest + n_after;
    return MP_OK;
}

/* ---- searches ---- */

static mp_status plan_within(planner *x, int64_t budget_bytes, mp_error *err)
{
    mp_share_plans *found = x->found;
    mp_request request = request_of(x);
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    request.budget_bytes = budget_bytes;
    if (!tell(x, NULL)) return MP_OK;
    MP_CHECK(mp_solve_with_arena(&request, &answer, err));
    x->n_searches++;
    found->stopped |= answer.stopped;
    if (answer.plan) MP_CHECK(take(x, &answer.plan, err));
    const int64_t ticks = in_unit(x, answer.bound.ticks > 0 ? answer.bound.ticks : 0, false);
    if (ticks < 0) return too_long(x, err);
    if (!found->bound_orders || answer.bound.orders == MP_BOUND_THIS_ORDER) found->bound_orders = answer.bound.orders;
    return take_bound(found, budget_bytes, ticks, err);
}

/* Adds keep-all. The time to run each node once is a lower bound for every budget. With channels beside compute, a plan may be
 * faster than keep-all, because compute moves into waits. */
static mp_status plan_keep_all(planner *x, mp_error *err)
{
    mp_share_plans *found = x->found;
    mp_request request = request_of(x);
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    request.budget_bytes = MP_NO_LIMIT;
    request.solver = "none";
    request.wants_bound = false;
    MP_CHECK(mp_solve_with_arena(&request, &answer, err));
    const mp_plan *plan = answer.smallest;
    found->static_bytes = plan->static_bytes;
    found->floor_bytes = answer.floor_bytes;
    found->keep_all_bytes = mp_plan_need(plan);
    found->keep_all_ticks = in_unit(x, plan->ticks, true);
    const int64_t once = mp_ticks_of_all(x->request->graph);
    MP_ENSURE(found->bounds = mp_alloc(1, sizeof *found->bounds), err, MP_NOMEM, "out of memory for bounds");
    found->bounds[found->n_bounds++] = (mp_share_option){found->floor_bytes, in_unit(x, once, false)};
    return take(x, &answer.smallest, err);
}

mp_status mp_share_plans_keep_all(const mp_share_plans_request *request, mp_share_plans *out, mp_error *err)
{
    MP_CLEARED_BY(mp_share_plans_free) mp_share_plans found = {0};
    planner x = {.request = request, .found = &found};
    MP_CHECK(plan_keep_all(&x, err));
    *out = found;
    found = (mp_share_plans){0};
    return MP_OK;
}

mp_status mp_share_plans_more(const mp_share_plans_request *asked, mp_share_plans *plans, mp_error *err)
{
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    MP_OWNED_BY(mp_plan_free) mp_plan *smallest = NULL;
    mp_share_plans_request request = *asked;
    const size_t n = request.n_budgets > 1 ? request.n_budgets : MP_SHARE_BUDGETS;
    planner x = {.request = &request, .found = plans, .n_expected = n + 1};
    if (!request.problem) {
        MP_CHECK(mp_problem_new(request.graph, &problem, err));
        request.problem = problem;
    }
    const mp_request least = request_of(&x);
    if (tell(&x, NULL)) MP_CHECK(mp_smallest_plan(&least, true, &smallest, err));
    x.n_searches++;
    const int64_t from = smallest ? mp_plan_need(smallest) : 0, span = plans->keep_all_bytes - from;
    if (smallest) MP_CHECK(take(&x, &smallest, err));
    for (size_t k = 0; k < n && !plans->stopped; k++)
        if (!k || span > 0) MP_CHECK(plan_within(&x, from + (int64_t)((double)span * (double)k / (double)(n - 1)), err));
    return MP_OK;
}

mp_status mp_share_plans_of(const mp_share_plans_request *request, mp_share_plans *out, mp_error *err)
{
    MP_CLEARED_BY(mp_share_plans_free) mp_share_plans found = {0};
    MP_CHECK(mp_share_plans_keep_all(request, &found, err));
    MP_CHECK(mp_share_plans_more(request, &found, err));
    *out = found;
    found = (mp_share_plans){0};
    return MP_OK;
}

mp_status mp_share_plans_add(const mp_share_plans_request *request, int64_t budget_bytes, mp_share_plans *plans, mp_error *err)
{
    planner x = {.request = request, .found = plans, .n_expected = 1};
    return plan_within(&x, budget_bytes, err);
}

void mp_share_plans_free(mp_share_plans *plans)
{
    for (size_t k = 0; k < plans->n; k++) mp_plan_free(plans->plans[k]);
    mp_free(plans->plans);
    mp_free(plans->options);
    mp_free(plans->bounds);
    *plans = (mp_share_plans){0};
}
