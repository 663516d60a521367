/* fit_trial.c - tries one batch: builds its graph, measures keep-all and the floor, and searches for a plan. */
#include "planner/studies/fit_trial.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "memplan/arena_solve.h"
#include "memplan/check.h"
#include "memplan/search.h"
#include "planner/math/tuning.h"
#include "planner/solve/solver.h"

/* searches from no plan make 1/N of the normal moves, because later searches refine their plans. The effect of this setting has
 * not been measured */
enum { FIT_FIRST_FEWER = 2 };

static bool tell(mp_fit_study *x, const mp_progress *search)
{
    const mp_fit_request *request = x->request;
    if (request->progress && !request->progress(x->batch, search, request->progress_data)) x->stopped = true;
    return !x->stopped;
}

static bool on_progress(const mp_progress *search, void *data)
{
    return tell(data, search);
}

mp_fit_trial *mp_fit_known(const mp_fit_study *x, int64_t batch)
{
    for (size_t k = 0; k < x->n_trials; k++)
        if (x->trials[k].batch == batch) return &x->trials[k];
    return NULL;
}

const char *mp_fit_solver_name(const char *name)
{
    const mp_solver *solver = mp_solver_find(name);
    return solver ? solver->name : "";
}

static mp_status without_recompute(const mp_fit_study *x, const mp_graph *graph, mp_fit_trial *t, mp_error *err)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    const mp_request request = {.graph = graph, .budget_bytes = MP_NO_LIMIT, .solver = "none"};
    MP_CHECK(mp_solve_with_arena(&request, &answer, err));
    MP_CHECK(mp_fit_measure_of(x->request, graph, answer.smallest, &t->kept, err));
    t->floor_bytes = t->own_floor_bytes = answer.floor_bytes;
    t->found = t->kept;
    t->baseline_ticks = answer.smallest->baseline_ticks;
    t->static_bytes = answer.smallest->static_bytes;
    t->tick_seconds = graph->tick_seconds;
    return MP_OK;
}

double mp_fit_overhead_of(const mp_fit_trial *t)
{
    return t->baseline_ticks > 0 ? (double)(t->ticks - t->baseline_ticks) / (double)t->baseline_ticks : 0;
}

bool mp_fit_is_quick_enough(const mp_fit_study *x, const mp_fit_trial *t)
{
    return t->peak_bytes >= 0 && mp_fit_overhead_of(t) <= x->request->overhead;
}

bool mp_fit_starts_from_plans(const mp_fit_study *x)
{
    return !x->request->solver || !strcmp(x->request->solver, "auto");
}

/* Takes the plan of a searched batch: of the largest one that is at most `batch`, otherwise of the smallest one. With
 * `again`, plans that take more than the allowed time do not count. The steps of a plan fit the graph of every batch with the
 * same settings. *out is NULL if there is no such plan. */
static mp_status nearest_plan(const mp_fit_study *x, const mp_graph *graph, int64_t batch, bool again, mp_plan **out,
                              mp_error *err)
{
    const mp_fit_trial *nearest = NULL;
    mp_error ours = {0};
    for (size_t k = 0; k < x->n_trials; k++) {
        const mp_fit_trial *t = &x->trials[k];
        if (!t->steps || (again && !mp_fit_is_quick_enough(x, t))) continue;
        if (!nearest || (t->batch <= batch ? t->batch > nearest->batch || nearest->batch > batch : nearest->batch > t->batch))
            nearest = t;
    }
    *out = NULL;
    if (!nearest || !mp_fit_starts_from_plans(x)) return MP_OK;
    mp_status st = mp_plan_new(graph, nearest->solver, nearest->steps, nearest->n_steps, out, &ours);
    if (st == MP_OK) st = mp_plan_check(graph, *out, &ours);
    if (st != MP_OK) {
        mp_plan_free(*out);
        *out = NULL;
    }
    if (st == MP_NOMEM && err) *err = ours;
    /* if the other batch's plan is not valid for this graph, *out is NULL and the search starts without a plan */
    return st == MP_NOMEM ? st : MP_OK;
}

/* Records the result of a search, unless a better result is known for the batch. */
static mp_status record(const mp_fit_study *x, const mp_graph *graph, mp_fit_trial *t, const mp_answer *answer,
                        const mp_fit_measure *found, mp_error *err)
{
    const mp_plan *plan = answer->plan ? answer->plan : answer->smallest;
    const bool is_first = !t->n_searches++, has_plan = answer->plan && mp_fit_has_room(x->request, found);
    if (!is_first && (!has_plan || (t->peak_bytes >= 0 && t->ticks <= plan->ticks))) return MP_OK;
    size_t capacity = t->n_steps;
    if (!mp_grow(&t->steps, &capacity, plan->n_steps, sizeof *t->steps))
        return MP_FAIL(err, MP_NOMEM, "out of memory for a plan of %zu steps", plan->n_steps);
    memcpy(t->steps, plan->steps, plan->n_steps * sizeof *t->steps);
    t->n_steps = plan->n_steps;
    t->found = *found;
    t->smallest_bytes = found->plan_bytes;
    t->peak_bytes = has_plan ? t->smallest_bytes : -1;
    t->ticks = has_plan ? plan->ticks : -1;
    t->solver = mp_fit_solver_name(plan->solver);
    if (!has_plan || graph == t->chosen) return MP_OK;
    mp_graph_free(t->chosen); /* the graph of graph_at has the faster plan */
    t->chosen = NULL;
    return MP_OK;
}

/* Searches for a plan, from the start that `how` names. `trial`: known plans by `lagrange`; NULL: none. With
 * these plans `lagrange` does not run. Each search for the same batch has another seed. If the search is stopped, its result is
 * not recorded. */
static mp_status search(mp_fit_study *x, const mp_graph *graph, const mp_answer *trial, mp_fit_trial *t, mp_fit_depth how,
                        mp_error *err)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_OWNED_BY(mp_plan_free) mp_plan *start = NULL;
    const mp_fit_request *asked = x->request;
    const mp_earlier_plans earlier = {graph, x->plan_limit, trial ? trial->plan : NULL, trial ? trial->smallest : NULL};
    mp_fit_measure found;
    mp_request request = {.graph = graph,
                          .budget_bytes = x->plan_limit,
                          .solver = asked->solver,
                          .seed = asked->seed + (uint64_t)t->n_searches,
                          .effort = asked->effort,
                          .keep_order = asked->keep_order,
                          .first_fit = true,
                          .progress = on_progress,
                          .progress_data = x};
    if (how != MP_FIT_SEARCHED_ANEW) MP_CHECK(nearest_plan(x, graph, t->batch, how == MP_FIT_SEARCHED_AGAIN, &start, err));
    request.start = start;
    if (earlier.smallest) request.earlier = &earlier;
    request.refine = start;
    const int fewer = start ? MP_FIT_QUICKER : asked->effort == MP_EFFORT_THOROUGH ? 1 : FIT_FIRST_FEWER;
    request.moves = asked->moves > 0 ? asked->moves : mp_default_moves(graph) / fewer;
    MP_CHECK(mp_solve_with_arena(&request, &answer, err));
    MP_CHECK(mp_fit_measure_of(asked, graph, answer.plan ? answer.plan : answer.smallest, &found, err));
    x->n_searches++;
    x->stopped = x->stopped || answer.stopped;
    if (answer.stopped) return MP_OK;
    t->searched_anew = t->searched_anew || !start;
    return record(x, graph, t, &answer, &found, err);
}

/* Adds the trial of a batch, with the results that need no search. */
static mp_status add_trial(mp_fit_study *x, int64_t batch, mp_graph **graph, mp_fit_trial **out, mp_error *err)
{
    mp_fit_trial made = {.batch = batch, .peak_bytes = -1, .ticks = -1, .smallest_bytes = -1, .solver = ""};
    MP_CHECK(x->request->graph_at(x->request->graph_data, batch, graph, err));
    MP_CHECK(without_recompute(x, *graph, &made, err));
    MP_ENSURE(mp_grow(&x->trials, &x->capacity, x->n_trials + 1, sizeof *x->trials), err, MP_NOMEM,
              "out of memory for %zu batches", x->n_trials);
    made.is_chosen = made.has_floor = !x->request->best_at;
    *out = &x->trials[x->n_trials++];
    **out = made;
    if (made.kept.bytes > x->request->memory_bytes) return MP_OK;
    /* if keep-all fits, no search is needed, because no plan is faster */
    (*out)->peak_bytes = (*out)->smallest_bytes = made.kept.plan_bytes;
    (*out)->ticks = made.baseline_ticks;
    (*out)->solver = mp_fit_solver_name("none");
    return MP_OK;
}

/* Lets the caller choose the best graph of a batch, or compute only a floor of all graphs. */
static mp_status choose(const mp_fit_study *x, mp_fit_trial *t, bool only_floor, mp_answer *trial, mp_error *err)
{
    mp_fit_choice choice = {.floor_bytes = t->own_floor_bytes};
    MP_CHECK(x->request->best_at(x->request->graph_data, t->batch, x->plan_limit, only_floor, &choice, err));
    t->chosen = choice.graph;
    *trial = choice.trial;
    if (!t->has_floor || choice.floor_bytes > t->floor_bytes) t->floor_bytes = choice.floor_bytes;
    if (t->floor_bytes > t->own_floor_bytes) t->floor_bytes = t->own_floor_bytes;
    t->has_floor = true;
    t->is_chosen = !only_floor;
    return MP_OK;
}

/* Searches for a plan of the chosen graph. If none is found within the allowed time, also searches the graph of graph_at, so
 * that the choice never gives a smaller answer. */
static mp_status search_graphs(mp_fit_study *x, mp_graph **graph, const mp_answer *trial, mp_fit_trial *t, mp_fit_depth how,
                               mp_error *err)
{
    const bool is_chosen = t->chosen;
    if (is_chosen) MP_CHECK(search(x, t->chosen, trial, t, how, err));
    if (is_chosen && (mp_fit_is_quick_enough(x, t) || x->stopped || t->own_floor_bytes > x->plan_limit)) return MP_OK;
    if (!*graph) MP_CHECK(x->request->graph_at(x->request->graph_data, t->batch, graph, err));
    return search(x, *graph, is_chosen ? NULL : trial, t, how, err);
}

mp_status mp_fit_try(mp_fit_study *x, int64_t batch, mp_fit_depth how, const mp_fit_trial **out, mp_error *err)
{
    MP_OWNED_BY(mp_graph_free) mp_graph *graph = NULL;
    MP_CLEARED_BY(mp_answer_free) mp_answer trial = {0};
    mp_fit_trial *t = mp_fit_known(x, batch);
    *out = NULL;
    x->batch = batch;
    if (!tell(x, NULL)) return MP_OK;
    if (!t) MP_CHECK(add_trial(x, batch, &graph, &t, err));
    const bool has_plan = t->n_searches || t->peak_bytes >= 0, searches = how != MP_FIT_NOT_SEARCHED;
    const bool is_over = t->floor_bytes > x->plan_limit, chooses = x->has_limit && !t->is_chosen && !has_plan;
    if (chooses && !searches && is_over && !t->has_floor) MP_CHECK(choose(x, t, true, &trial, err));
    if (chooses && searches && !(t->has_floor && is_over)) MP_CHECK(choose(x, t, false, &trial, err));
    if ((how == MP_FIT_SEARCHED && !has_plan && t->floor_bytes <= x->plan_limit) || how > MP_FIT_SEARCHED) {
        MP_CHECK(search_graphs(x, &graph, &trial, t, how, err));
        if (!t->n_searches) return MP_OK;
    }
    *out = t;
    return MP_OK;
}

void mp_fit_study_clear(mp_fit_study *x)
{
    for (size_t k = 0; k < x->n_trials; k++) {
        mp_graph_free(x->trials[k].chosen);
        mp_free(x->trials[k].steps);
    }
    mp_free(x->trials);
}
