#include "planner/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "planner/floor.h"

typedef struct sweep {
    const mp_sweep_request *request;
    mp_sweep *found;
    size_t n_searches, n_expected;
    mp_plan **best; /* per budget: the cheapest plan of any searcher, NULL: none */
} sweep;

static bool tell(sweep *x, const mp_progress *search)
{
    const mp_sweep_request *request = x->request;
    const size_t n = x->n_expected > x->n_searches ? x->n_expected : x->n_searches + 1;
    if (request->progress && !request->progress(x->n_searches, n, search, request->progress_data)) x->found->stopped = true;
    return !x->found->stopped;
}

static bool on_progress(const mp_progress *search, void *data)
{
    return tell(data, search);
}

static mp_sweep_point point_of(const mp_plan *plan, const mp_graph *graph, int64_t budget_bytes)
{
    mp_sweep_point point = {.budget_bytes = budget_bytes};
    if (!plan) return point;
    point.feasible = true;
    point.peak_bytes = plan->peak_bytes;
    point.ticks = plan->ticks;
    point.n_checkpoints = plan->n_checkpoints;
    point.n_recomputed = plan->n_steps - graph->n_nodes; /* every node runs once at least */
    return point;
}

/* The searcher that improves on what all others have found; the last row of the table. */
static bool is_annealing(const char *solver)
{
    return !strcmp(solver, "anneal");
}

/* One search: what it makes of the budget, and the smallest plan that it met on the way. A search that was cut short tells
 * nothing: *done is false then. It starts from the best plan so far, if there is one, and replaces it by a cheaper one. */
static mp_status try_budget(sweep *x, const char *solver, int64_t budget_bytes, mp_plan **best, mp_sweep_point *point,
                            mp_sweep_point *smallest, bool *done, mp_error *err)
{
    mp_status st = MP_OK;
    mp_answer answer = {0};
    const mp_request request = {.graph = x->request->graph,
                                .budget_bytes = budget_bytes,
                                .solver = solver,
                                .seed = x->request->seed,
                                .moves = x->request->moves,
                                .start = is_annealing(solver) && best ? *best : NULL,
                                .refine = true,
                                .keep_order = x->request->keep_order,
                                .progress = on_progress,
                                .progress_data = x};
    *done = false;
    if (!tell(x, NULL)) return MP_OK;
    MP_TRY(mp_solve(&request, &answer, err));
    x->n_searches++;
    if (answer.stopped) {
        x->found->stopped = true;
        goto done;
    }
    *point = point_of(answer.plan, x->request->graph, budget_bytes);
    *smallest = point_of(answer.smallest, x->request->graph, answer.smallest->peak_bytes);
    if (best && answer.plan && (!*best || answer.plan->ticks < (*best)->ticks)) {
        mp_plan *worse = *best;
        *best = answer.plan;
        answer.plan = worse;
    }
    *done = true;
done:
    mp_answer_free(&answer);
    return st;
}

static mp_status append(mp_sweep_curve *curve, mp_sweep_point point, mp_error *err)
{
    size_t capacity = curve->n;
    if (!mp_grow(&curve->points, &capacity, curve->n + 1, sizeof *curve->points))
        return MP_FAIL(err, MP_NOMEM, "out of memory for %zu budgets", curve->n);
    curve->points[curve->n++] = point;
    if (point.feasible && (curve->smallest_bytes < 0 || point.peak_bytes < curve->smallest_bytes))
        curve->smallest_bytes = point.peak_bytes;
    return MP_OK;
}

/* Opens the curves of the searchers that are to run. A budget below keep-all's peak makes a searcher look everywhere, so one
 * search there finds the smallest plan that it can make; it is the first point of its curve if the budgets are ours. */
static mp_status open_curves(sweep *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_sweep_request *request = x->request;
    mp_sweep *found = x->found;
    const size_t n = request->n_solvers ? request->n_solvers : mp_solver_count();
    found->curves = mp_alloc(n, sizeof *found->curves);
    MP_REQUIRE(found->curves, err, MP_NOMEM, "out of memory for %zu curves", n);
    for (size_t k = 0; k < n && !found->stopped; k++) {
        const mp_solver *row = request->n_solvers ? NULL : mp_solver_row(k);
        const char *name = row ? row->name : request->solvers[k];
        mp_sweep_point point, smallest;
        mp_error ours = {0};
        bool done;
        if (row && (row->run == mp_run_auto || row->run == mp_run_none)) continue;
        st = try_budget(x, name, found->keep_all_bytes - 1, NULL, &point, &smallest, &done, &ours);
        if (st == MP_NOT_APPLICABLE && row) {
            st = MP_OK;
            continue;
        }
        if (st != MP_OK && err && err->code == MP_OK) *err = ours;
        if (st != MP_OK || !done) goto done;
        for (size_t c = 0; is_annealing(name) && !request->budgets && c < found->n_curves; c++)
            if (found->curves[c].smallest_bytes < smallest.peak_bytes) smallest = found->curves[c].points[0];
        mp_sweep_curve *curve = &found->curves[found->n_curves++];
        *curve = (mp_sweep_curve){.solver = name, .smallest_bytes = -1};
        if (!request->budgets) MP_TRY(append(curve, smallest, err));
        curve->smallest_bytes = smallest.peak_bytes;
    }
    MP_REQUIRE(found->n_curves || found->stopped, err, MP_NOT_APPLICABLE, "no searcher applies to %s", request->graph->name);
done:
    return st;
}

/* The k-th of n budgets that are ours. */
static int64_t default_budget(const mp_sweep *found, size_t k, size_t n)
{
    int64_t least = found->keep_all_bytes;
    for (size_t i = 0; i < found->n_curves; i++)
        if (found->curves[i].smallest_bytes < least) least = found->curves[i].smallest_bytes;
    return n < 2 ? least : least + (int64_t)((double)(found->keep_all_bytes - least) * (double)k / (double)(n - 1));
}

/* What fits a budget fits the next one. */
static mp_status hand_on(sweep *x, size_t k, size_t n, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_plan *plan = x->best[k];
    mp_plan *copy = NULL;
    if (!plan || k + 1 >= n || (x->best[k + 1] && x->best[k + 1]->ticks <= plan->ticks)) return MP_OK;
    MP_TRY(mp_plan_new(x->request->graph, plan->solver, plan->steps, plan->n_steps, &copy, err));
    mp_plan_free(x->best[k + 1]);
    x->best[k + 1] = copy;
done:
    return st;
}

static mp_status fill_curve(sweep *x, mp_sweep_curve *curve, size_t n, mp_error *err)
{
    mp_status st = MP_OK;
    for (size_t k = 0; k < n; k++) {
        const int64_t budget = x->request->budgets ? x->request->budgets[k] : default_budget(x->found, k, n);
        mp_sweep_point point, smallest;
        bool done;
        if (!x->request->budgets && budget <= curve->smallest_bytes) continue; /* where the curve begins */
        MP_TRY(try_budget(x, curve->solver, budget, &x->best[k], &point, &smallest, &done, err));
        if (!done) break;
        MP_TRY(hand_on(x, k, n, err));
        MP_TRY(append(curve, point, err));
    }
done:
    return st;
}

static mp_status baseline(sweep *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = x->request->graph;
    mp_timeline *timeline = NULL;
    int unused;
    mp_step *steps = mp_alloc(graph->n_nodes, sizeof *steps);
    MP_REQUIRE(steps, err, MP_NOMEM, "out of memory for %zu steps", graph->n_nodes);
    mp_keep_all(graph, steps);
    MP_TRY(mp_timeline_build(graph, steps, graph->n_nodes, &timeline, err));
    x->found->keep_all_bytes = timeline->peak_bytes;
    x->found->keep_all_ticks = timeline->ticks;
    x->found->static_bytes = timeline->static_bytes;
    x->found->tick_seconds = graph->tick_seconds;
    MP_TRY(mp_floor(graph, &x->found->floor_bytes, &unused, err));
done:
    mp_timeline_free(timeline);
    mp_free(steps);
    return st;
}

static int by_budget(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

mp_status mp_sweep_budgets(const mp_sweep_request *asked, mp_sweep *out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_sweep found = {0};
    mp_sweep_request request = *asked;
    sweep x = {.request = &request, .found = &found};
    size_t n = request.n_budgets ? request.n_budgets : MP_SWEEP_BUDGETS;
    int64_t *budgets = mp_alloc(n, sizeof *budgets);
    MP_REQUIRE(budgets, err, MP_NOMEM, "out of memory for %zu budgets", n);
    if (asked->budgets) {
        memcpy(budgets, asked->budgets, n * sizeof *budgets);
        qsort(budgets, n, sizeof *budgets, by_budget);
        request.budgets = budgets;
    }
    x.n_expected = (n + 1) * (request.n_solvers ? request.n_solvers : mp_solver_count() - 2);
    MP_REQUIRE(x.best = mp_alloc(n, sizeof *x.best), err, MP_NOMEM, "out of memory for %zu budgets", n);
    MP_TRY(baseline(&x, err));
    MP_TRY(open_curves(&x, err));
    for (size_t k = 0; k < found.n_curves && !found.stopped; k++) MP_TRY(fill_curve(&x, &found.curves[k], n, err));
    if (!found.stopped) {
        mp_error ours = {0};
        st = mp_spread(request.graph, MP_SWEEP_SPREAD, &found.spread, &found.n_spread, &ours);
        if (st == MP_NOT_APPLICABLE) st = MP_OK; /* no backward phase, so no segments */
        if (st != MP_OK && err && err->code == MP_OK) *err = ours;
        if (st != MP_OK) goto done;
    }
    *out = found;
    found = (mp_sweep){0};
done:
    for (size_t k = 0; x.best && k < n; k++) mp_plan_free(x.best[k]);
    mp_free(x.best);
    mp_sweep_free(&found);
    mp_free(budgets);
    return st;
}

void mp_sweep_free(mp_sweep *sweep)
{
    for (size_t k = 0; k < sweep->n_curves; k++) mp_free(sweep->curves[k].points);
    mp_free(sweep->curves);
    mp_free(sweep->spread);
    *sweep = (mp_sweep){0};
}
