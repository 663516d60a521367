/* ilp.c - the searcher `ilp`: Checkmate's integer programme (Jain et al. 2020), solved by GLPK. If this programme is too large,
 * it solves a programme with fewer stages (ilp.h).
 *
 * If GLPK is stopped early, its result changes irregularly with the budget. So memplan solves the programme for the budgets of
 * a ladder, which depends on the graph alone. It starts with the highest rung (budget) of the ladder that is within the user's
 * budget. It goes down until a rung is solved to optimality or no faster plan is possible. The result for a rung depends on the
 * rung alone. A plan found for a lower rung is also valid for a higher rung. If the graph has few different sizes, there is a
 * rung for every possible peak. */
#include "planner/floor/problem.h"
#include "planner/search/searchers.h"

#include <string.h>

#include "estimator/base/clock.h"
#include "estimator/base/integers.h"
#include "planner/ilp/ilp.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    ILP_MOVES_PER_NODE = 16, /* moves that one node of GLPK's search tree counts as */
};

/* GLPK starts from the plans of the searcher lower-set, which are listed as plans of `ilp` */
static const mp_solver start = {.name = "ilp", .run = mp_run_lower_set, .monotone = true};

typedef struct ilp {
    mp_search *search;
    const mp_graph *graph;
    mp_ilp_model *model;
    mp_ilp_result best;
    double begun;
} ilp;

static bool is_stopped(void *data)
{
    return mp_search_stopped(data);
}

/* Builds the largest model within MP_ILP_COLUMNS. It has a stage at every place, or stages spread evenly over the places after
 * the forward pass. With fewer than 6 stages the searcher lower-set finds better plans, so no such model is built. */
static mp_status build_model(ilp *x, mp_error *err)
{
    static const int counts[] = {48, 32, 24, 16, 12, 8, 6};
    mp_error why = {0};
    mp_status st = mp_ilp_model_new(x->graph, NULL, 0, MP_ILP_COLUMNS, &x->model, &why);
    int first[64] = {0}, n_places = 0, after_forward = 0;
    for (size_t i = 0; i < x->graph->n_nodes; i++) {
        const mp_phase phase = x->graph->nodes[i].phase;
        n_places += phase != MP_PHASE_UPDATE;
        if (phase == MP_PHASE_FORWARD && after_forward == n_places - 1) after_forward = n_places;
    }
    for (size_t k = 0; k < sizeof counts / sizeof *counts && st == MP_NOT_APPLICABLE; k++) {
        const int n = counts[k];
        /* skips a number of stages if two of the stages would begin at the same place */
        if (n_places - after_forward <= n) continue;
        for (int i = 1; i <= n; i++) first[i] = after_forward + (int)((int64_t)(n_places - after_forward) * i / (n + 1));
        why = (mp_error){0};
        st = mp_ilp_model_new(x->graph, first, n + 1, MP_ILP_COLUMNS, &x->model, &why);
    }
    return st == MP_OK ? st : MP_FAIL(err, st, "%s", why.message);
}

/* Offers the list order without recomputation. Its peak is the highest budget of the ladder. */
static mp_status offer_list(ilp *x, int64_t *peak_bytes, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    size_t n = 0;
    MP_OWNED bool *runs = mp_alloc((size_t)x->model->n_stages * (size_t)x->model->n_places, sizeof *runs);
    MP_ENSURE(runs, err, MP_NOMEM, "out of memory for the integer programme of %s", x->graph->name);
    MP_CHECK(mp_ilp_steps(x->model, runs, &steps, &n, err));
    return mp_search_offer(x->search, steps, n, peak_bytes, NULL, err);
}

/* Returns the distance in bytes between neighbouring budgets of the ladder, which ranges from `low` to `high`. */
static int64_t rung_bytes(const ilp *x, int64_t low, int64_t high)
{
    const mp_graph *graph = x->graph;
    int64_t unit = 0;
    for (size_t k = 0; k < graph->n_storages; k++) unit = mp_gcd(unit, graph->storages[k].bytes);
    for (size_t k = 0; k < graph->n_nodes; k++) unit = mp_gcd(unit, graph->nodes[k].alternatives[0].workspace_bytes);
    const int64_t even = (high - low) / MP_ILP_RUNGS;
    return unit > even ? unit : even > 0 ? even : 1;
}

/* Solves the programme for the budget of one rung. Sets *done if no lower rung needs to be solved. */
static mp_status climb(ilp *x, int64_t budget_bytes, bool *done, mp_error *err)
{
    const mp_request *request = mp_search_request(x->search);
    mp_ilp_limits limits = {.most_nodes = mp_search_moves(x->search) / ILP_MOVES_PER_NODE,
                            .good_ticks = x->best.steps ? x->best.ticks : INT64_MAX,
                            .stopped = is_stopped,
                            .data = x->search};
    mp_ilp_result found = {0};
    *done = false;
    for (int repair = 0; repair <= 3 && !*done; repair++) {
        limits.seconds = request->time_limit > 0 ? request->time_limit - (mp_clock_now() - x->begun) : 0;
        *done = request->time_limit > 0 && limits.seconds <= 0;
        if (*done) break;
        MP_CHECK(mp_ilp_search(x->model, budget_bytes, &limits, &found, err));
        if (found.steps && (!x->best.steps || found.ticks < x->best.ticks)) {
            mp_free(x->best.steps);
            x->best = found;
            found.steps = NULL;
        }
        mp_free(found.steps);
        *done = found.proved || found.stopped;
        if (!found.excess_bytes) break;
        limits.tighter_bytes += found.excess_bytes;
    }
    return MP_OK;
}

static void clear(ilp *x)
{
    mp_free(x->best.steps);
    mp_ilp_model_free(x->model);
}

mp_status mp_run_ilp(mp_search *search, mp_error *err)
{
    const mp_request *request = mp_search_request(search);
    MP_CLEARED_BY(clear) ilp x = {.search = search, .graph = request->graph, .begun = mp_clock_now()};
    int64_t low, high;
    int node;
    bool done = false;
    MP_CHECK(build_model(&x, err));
    /* lower-set runs first only if the user chose `ilp`; in `auto`, other searchers have already found plans from which GLPK
     * can start */
    if (request->solver && !strcmp(request->solver, start.name)) MP_CHECK(mp_search_delegate(search, &start, 1, err));
    if (x.graph == mp_problem_graph(request->problem)) MP_CHECK(mp_problem_floor(request->problem, &low, NULL, err));
    /* the relaxed graph (algorithms.h) may have another floor than the request's graph, so its floor is computed separately */
    else
        MP_CHECK(mp_floor(x.graph, &low, &node, err));
    MP_CHECK(offer_list(&x, &high, err));
    if (request->budget_bytes < low || request->budget_bytes >= high) return MP_OK;
    if (mp_search_moves(search) < MP_ILP_LEAST_NODES * ILP_MOVES_PER_NODE) return MP_OK;
    const int64_t step = rung_bytes(&x, low, high);
    for (int64_t rung = low + (request->budget_bytes - low) / step * step; rung >= low && !done; rung -= step)
        MP_CHECK(climb(&x, rung, &done, err));
    if (x.best.steps) MP_CHECK(mp_search_offer(search, x.best.steps, x.best.n, NULL, NULL, err));
    return MP_OK;
}
