/* sweep.c - computes curves of time over memory, one per searcher. First each searcher runs once. Then lower bounds are
 * computed for several budgets. Then each searcher runs again for each budget at which its curve is above the bound. This
 * search starts from the best plan of any searcher. One frontier stores the schedules of all searchers, and one per searcher
 * stores its own.
 */
#include "memplan/studies/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/graph/without_copies.h"
#include "estimator/graph/without_state_copies.h"
#include "memplan/check.h"
#include "memplan/search.h"
#include "planner/bound/proof.h"
#include "planner/math/tuning.h"
#include "planner/offload/copies.h"
#include "planner/offload/state.h"
#include "planner/search/searchers.h"
#include "planner/solve/solver.h"
#include "planner/studies/frontier.h"

/* True for graphs in which activations can be copied to another tier. Graphs with copies of optimizer state are excluded,
 * because the solver plans them on another graph (the graph without state copies). */
static bool copies_activations(const mp_graph *graph)
{
    return graph->n_tiers > 1 && !mp_graph_n_state_copies(graph);
}

/* The three curves of a graph with copies, used if the request names no searchers. */
static const struct {
    const char *name, *solver;
    bool omits_copies; /* true if the curve is for the graph without its copies */
} three[] = {{"recompute only", "auto", true}, {"offload only", "copy-only", false}, {"both", "auto", false}};
enum { N_THREE = sizeof three / sizeof *three };

typedef struct sweep {
    const mp_sweep_request *request;
    mp_sweep *found;
    bool is_three;
    mp_without_copies without_copies; /* the graph without copies, for the first of the three curves */
    const mp_solver **solvers;        /* per curve: its searcher */
    mp_frontier *tried;               /* per curve: the schedules that its searcher has offered */
    size_t n_tried;
    mp_frontier all; /* the schedules that all searchers together have offered */
    size_t n_searches, n_expected;
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

static bool is_stopped(void *data)
{
    return !tell(data, NULL);
}

/* ---- searches ---- */

static mp_status note(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data, mp_error *err)
{
    return mp_frontier_add(data, steps, n, peak_bytes, ticks, err);
}

/* Records schedules that are offered in a search on the graph without copies, and converts them to the graph with copies. */
typedef struct without_copies_note {
    const mp_without_copies *without_copies;
    mp_frontier *tried;
} without_copies_note;

static mp_status note_without_copies(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data,
                                     mp_error *err)
{
    const without_copies_note *to = data;
    MP_OWNED mp_step *copy = mp_alloc(n, sizeof *copy);
    MP_ENSURE(copy, err, MP_NOMEM, "out of memory for a schedule of %zu steps", n);
    if (n) memcpy(copy, steps, n * sizeof *copy);
    mp_without_copies_to_original(to->without_copies, copy, n);
    return mp_frontier_add(to->tried, copy, n, peak_bytes, ticks, err);
}

/* Runs one search for curve c. Records the schedules that are offered, and the bound that the searcher proves. If the search
 * was stopped, *done is false and its results are not used. */
static mp_status search(sweep *x, size_t c, const mp_solver *solver, int64_t budget_bytes, const mp_plan *start,
                        mp_frontier *tried, mp_sweep_bound *bound, bool *done, mp_error *err)
{
    without_copies_note noted = {&x->without_copies, tried};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    const int64_t moves = x->request->moves, all = mp_default_moves(x->request->graph);
    mp_request request = {.graph = x->request->graph,
                          .problem = x->request->problem,
                          .budget_bytes = budget_bytes,
                          .solver = solver->name,
                          .seed = x->request->seed,
                          .moves = moves > 0 ? moves : all / (start ? MP_SWEEP_QUICKER : 1),
                          .effort = x->request->effort,
                          .start = start,
                          .refine = start,
                          /* a bound is requested only from the searcher `exact`, which proves one by its search */
                          .wants_bound = bound && solver->run == mp_run_exact,
                          .keep_order = x->request->keep_order,
                          .progress = on_progress,
                          .progress_data = x,
                          .on_offer = note,
                          .on_offer_data = tried};
    memcpy(request.tier_bytes, x->request->tier_bytes, sizeof request.tier_bytes);
    if (x->is_three && three[c].omits_copies) {
        request.graph = x->without_copies.graph;
        request.problem = NULL;
        request.on_offer = note_without_copies;
        request.on_offer_data = &noted;
    }
    *done = false;
    if (!tell(x, NULL)) return MP_OK;
    MP_CHECK(mp_solve(&request, &answer, err));
    x->n_searches++;
    if (answer.stopped) x->found->stopped = true;
    if (bound && answer.bound.orders) {
        if (answer.bound.ticks > bound->ticks) bound->ticks = answer.bound.ticks;
        bound->infeasible |= answer.bound.infeasible;
    }
    *done = !answer.stopped;
    return MP_OK;
}

/* Adds the schedules of one searcher to the frontier of all searchers. */
static mp_status share(sweep *x, const mp_frontier *tried, mp_error *err)
{
    for (size_t k = 0; k < tried->n; k++) {
        const mp_frontier_point *p = &tried->points[k];
        MP_CHECK(mp_frontier_add(&x->all, p->steps, p->n_steps, p->peak_bytes, p->ticks, err));
    }
    return MP_OK;
}

/* ---- curves ---- */

/* Runs the first search of a curve. Its budget is just below keep-all's peak, so that the searcher makes all its offers. In two
 * cases the search instead looks for a plan smaller than all known ones: for a searcher that improves other plans, and for the
 * three curves of a graph with copies. */
static mp_status open_curve(sweep *x, const mp_solver *solver, mp_error *err)
{
    mp_sweep *found = x->found;
    const bool improves = solver->run == mp_run_anneal && x->all.n;
    MP_CLEARED_BY(mp_frontier_free) mp_frontier tried = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *start = NULL;
    bool done;
    if (improves)
        MP_CHECK(mp_plan_new(x->request->graph, solver->name, x->all.points[0].steps, x->all.points[0].n_steps, &start, err));
    const size_t c = found->n_curves;
    MP_CHECK(search(x, c, solver, improves || x->is_three ? found->floor_bytes : found->keep_all_bytes - 1, start, &tried, NULL,
                    &done, err));
    if (!done) return MP_OK;
    MP_CHECK(share(x, &tried, err));
    x->solvers[c] = solver;
    x->tried[x->n_tried++] = tried;
    found->curves[found->n_curves++] =
        (mp_sweep_curve){.solver = x->is_three ? three[c].name : solver->name, .smallest_bytes = tried.points[0].peak_bytes};
    tried = (mp_frontier){0};
    return MP_OK;
}

static mp_status open_curves(sweep *x, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_sweep_request *request = x->request;
    mp_sweep *found = x->found;
    const size_t n = x->is_three ? N_THREE : request->n_solvers ? request->n_solvers : mp_solver_count();
    found->curves = mp_alloc(n, sizeof *found->curves);
    x->solvers = mp_alloc(n, sizeof *x->solvers);
    x->tried = mp_alloc(n, sizeof *x->tried);
    MP_ENSURE(found->curves && x->solvers && x->tried, err, MP_NOMEM, "out of memory for %zu curves", n);
    for (size_t k = 0; k < n && !found->stopped; k++) {
        const char *name = x->is_three ? three[k].solver : request->n_solvers ? request->solvers[k] : NULL;
        const mp_solver *solver = name ? mp_solver_find(name) : mp_solver_row(k);
        mp_error ours = {0};
        MP_ENSURE(solver, err, MP_INVALID, "there is no solver '%s'", request->solvers[k]);
        if (!name && (solver->run == mp_run_auto || solver->run == mp_run_none)) continue;
        st = open_curve(x, solver, &ours);
        if (st == MP_NOT_APPLICABLE && !request->n_solvers) st = MP_OK;
        if (st != MP_OK && err && err->code == MP_OK) *err = ours;
        if (st != MP_OK) return st;
    }
    MP_ENSURE(found->n_curves || found->stopped, err, MP_NOT_APPLICABLE, "no searcher applies to %s", request->graph->name);
    return st;
}

static mp_status append(sweep *x, mp_sweep_curve *curve, const mp_frontier_point *p, int64_t budget_bytes, mp_error *err)
{
    const mp_graph *graph = x->request->graph;
    MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
    size_t capacity = curve->n;
    mp_sweep_point point = {.budget_bytes = budget_bytes, .feasible = p};
    if (p) {
        MP_CHECK(mp_plan_new(graph, curve->solver, p->steps, p->n_steps, &plan, err));
        MP_CHECK(mp_plan_check(graph, plan, err));
        point.peak_bytes = plan->peak_bytes;
        point.ticks = plan->ticks;
        point.n_checkpoints = plan->n_checkpoints;
        for (size_t t = 0; t < plan->n_steps; t++)
            point.n_recomputed +=
                plan->recompute[t] && !graph->nodes[plan->steps[t].node].alternatives[plan->steps[t].alternative].returns;
    }
    MP_ENSURE(mp_grow(&curve->points, &capacity, curve->n + 1, sizeof *curve->points), err, MP_NOMEM,
              "out of memory for %zu budgets", curve->n);
    curve->points[curve->n++] = point;
    return MP_OK;
}

/* Runs a search for one budget, starting from the best known plan for it. If this plan is proved optimal, no search runs. The
 * searcher `exact` always runs, because it is very quick, and its curve must show its own result. */
static mp_status improve(sweep *x, size_t c, mp_sweep_bound *bound, mp_error *err)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *start = NULL;
    MP_CLEARED_BY(mp_frontier_free) mp_frontier tried = {0};
    bool done;
    const mp_frontier_point *best = mp_frontier_within(&x->all, bound->budget_bytes);
    if (bound->infeasible) return MP_OK;
    if (best) MP_CHECK(mp_plan_new(x->request->graph, x->solvers[c]->name, best->steps, best->n_steps, &start, err));
    const bool is_both = x->is_three && c + 1 == N_THREE;
    if (best && (x->solvers[c]->run == mp_run_anneal || is_both))
        MP_CHECK(mp_frontier_add(&x->tried[c], best->steps, best->n_steps, best->peak_bytes, best->ticks, err));
    if (x->solvers[c]->run == mp_run_exact || (x->is_three && !is_both))
        best = mp_frontier_within(&x->tried[c], bound->budget_bytes);
    if (best && best->ticks <= bound->ticks) return MP_OK;
    MP_CHECK(search(x, c, x->solvers[c], bound->budget_bytes, x->solvers[c]->run == mp_run_anneal ? start : NULL, &tried, bound,
                    &done, err));
    if (!done) return MP_OK;
    MP_CHECK(share(x, &tried, err));
    for (size_t k = 0; k < tried.n; k++) {
        const mp_frontier_point *p = &tried.points[k];
        MP_CHECK(mp_frontier_add(&x->tried[c], p->steps, p->n_steps, p->peak_bytes, p->ticks, err));
    }
    return MP_OK;
}

static mp_status fill_curve(sweep *x, size_t c, mp_error *err)
{
    mp_sweep_curve *curve = &x->found->curves[c];
    for (size_t k = 0; k < x->found->n_bounds && !x->solvers[c]->monotone && !x->found->stopped; k++)
        MP_CHECK(improve(x, c, &x->found->bounds[k], err));
    curve->smallest_bytes = x->tried[c].points[0].peak_bytes;
    if (!x->request->budgets) MP_CHECK(append(x, curve, &x->tried[c].points[0], curve->smallest_bytes, err));
    for (size_t k = 0; k < x->found->n_bounds; k++) {
        const int64_t budget = x->found->bounds[k].budget_bytes;
        /* the budget is too small for any plan of the curve */
        if (!x->request->budgets && budget <= curve->smallest_bytes) continue;
        MP_CHECK(append(x, curve, mp_frontier_within(&x->tried[c], budget), budget, err));
    }
    return MP_OK;
}

/* ---- bounds ---- */

/* Returns the k-th of n budgets, if the request names no budgets. */
static int64_t default_budget(const sweep *x, size_t k, size_t n)
{
    const int64_t least = x->all.n ? x->all.points[0].peak_bytes : x->found->floor_bytes;
    const double span = (double)(x->found->keep_all_bytes - least);
    return n < 2 ? least : least + (int64_t)(span * (double)k / (double)(n - 1));
}

/* Chooses the budgets, and computes a bound for each. A bound for a larger budget is also valid for every smaller one. */
static mp_status find_bounds(sweep *x, size_t n, mp_error *err)
{
    const mp_sweep_request *request = x->request;
    mp_sweep *found = x->found;
    const bool has_state = mp_graph_n_state_copies(request->graph);
    /* the time to run each node once. Keep-all takes longer if its compute waits for copies or exchanges */
    const int64_t least_ticks = mp_ticks_of_all(request->graph);
    const mp_bound_options options = {.effort = mp_proof_effort(request->graph) ? 1 : 0, .stop = is_stopped, .data = x};
    MP_ENSURE(found->bounds = mp_alloc(n, sizeof *found->bounds), err, MP_NOMEM, "out of memory for %zu budgets", n);
    found->n_bounds = n;
    for (size_t k = n; k-- > 0;) {
        mp_sweep_bound *b = &found->bounds[k];
        mp_bound bound = {0};
        b->budget_bytes = request->budgets ? request->budgets[k] : default_budget(x, k, n);
        b->ticks = k + 1 < n ? b[1].ticks : has_state ? 0 : least_ticks;
        if (found->stopped) continue;
        MP_CHECK(mp_prove(request->problem, b->budget_bytes, request->keep_order, &options, &bound, err));
        if (has_state) bound.ticks = mp_state_bound(request->graph, bound.ticks);
        if (bound.ticks > b->ticks) b->ticks = bound.ticks;
        b->infeasible = bound.infeasible;
        if (!found->bound_orders || bound.orders == MP_BOUND_THIS_ORDER) found->bound_orders = bound.orders;
    }
    return MP_OK;
}

/* For a graph with copies: tries to prove higher bounds. The ticks of the best known plans limit these bounds. */
static mp_status raise_bounds(sweep *x, mp_error *err)
{
    const mp_sweep *found = x->found;
    for (size_t k = found->n_bounds; k-- > 0 && !found->stopped;) {
        mp_sweep_bound *b = &found->bounds[k];
        const mp_frontier_point *best = mp_frontier_within(&x->all, b->budget_bytes);
        mp_bound bound;
        if (k + 1 < found->n_bounds && b[1].ticks > b->ticks) b->ticks = b[1].ticks;
        if (!best || best->ticks <= b->ticks) continue;
        MP_CHECK(mp_copies_bound(x->request->graph, b->budget_bytes, x->request->tier_bytes, best->ticks, 1, &bound, err));
        if (bound.ticks > b->ticks) b->ticks = bound.ticks;
    }
    return MP_OK;
}

/* ---- the sweep ---- */

static mp_status baseline(sweep *x, mp_error *err)
{
    const mp_step *steps;
    const mp_timeline *timeline;
    MP_CHECK(mp_problem_keep_all(x->request->problem, &steps, &timeline, err));
    x->found->keep_all_bytes = timeline->peak_bytes;
    MP_CHECK(mp_keep_all_ticks(x->request->graph, &x->found->keep_all_ticks, err));
    x->found->static_bytes = timeline->static_bytes;
    x->found->tick_seconds = x->request->graph->tick_seconds;
    return mp_problem_floor(x->request->problem, &x->found->floor_bytes, NULL, err);
}

static int by_budget(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void clear(sweep *x)
{
    for (size_t k = 0; k < x->n_tried; k++) mp_frontier_free(&x->tried[k]);
    mp_free(x->tried);
    mp_free(x->solvers);
    mp_without_copies_free(&x->without_copies);
    mp_frontier_free(&x->all);
}

mp_status mp_sweep_budgets(const mp_sweep_request *asked, mp_sweep *out, mp_error *err)
{
    MP_CLEARED_BY(mp_sweep_free) mp_sweep found = {0};
    MP_OWNED_BY(mp_problem_free) mp_problem *problem = NULL;
    mp_sweep_request request = *asked;
    MP_CLEARED_BY(clear) sweep x = {.request = &request, .found = &found};
    size_t n = request.n_budgets ? request.n_budgets : MP_SWEEP_BUDGETS;
    MP_OWNED int64_t *budgets = mp_alloc(n, sizeof *budgets);
    MP_ENSURE(budgets, err, MP_NOMEM, "out of memory for %zu budgets", n);
    if (asked->budgets) {
        memcpy(budgets, asked->budgets, n * sizeof *budgets);
        qsort(budgets, n, sizeof *budgets, by_budget);
        request.budgets = budgets;
    }
    x.n_expected = n + (request.n_solvers                   ? request.n_solvers
                        : copies_activations(request.graph) ? N_THREE
                                                            : mp_solver_count() - 2);
    if (!request.problem) {
        MP_CHECK(mp_problem_new(request.graph, &problem, err));
        request.problem = problem;
    }
    x.is_three = copies_activations(request.graph) && !request.n_solvers;
    if (x.is_three) MP_CHECK(mp_graph_without_copies(request.graph, &x.without_copies, err));
    MP_CHECK(baseline(&x, err));
    MP_CHECK(open_curves(&x, err));
    MP_CHECK(find_bounds(&x, n, err));
    for (size_t k = 0; k < found.n_curves; k++) MP_CHECK(fill_curve(&x, k, err));
    if (copies_activations(request.graph)) MP_CHECK(raise_bounds(&x, err));
    if (!found.stopped) {
        mp_error ours = {0};
        const mp_status status = mp_spread(request.graph, MP_SWEEP_SPREAD, &found.spread, &found.n_spread, &ours);
        /* MP_NOT_APPLICABLE is no error: a graph without backward nodes has no plans with checkpoints */
        if (status != MP_OK && status != MP_NOT_APPLICABLE) {
            if (err && err->code == MP_OK) *err = ours;
            return status;
        }
    }
    *out = found;
    found = (mp_sweep){0};
    return MP_OK;
}

void mp_sweep_free(mp_sweep *sweep)
{
    for (size_t k = 0; k < sweep->n_curves; k++) mp_free(sweep->curves[k].points);
    mp_free(sweep->curves);
    mp_free(sweep->bounds);
    mp_free(sweep->spread);
    *sweep = (mp_sweep){0};
}
