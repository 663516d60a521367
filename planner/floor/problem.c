/* problem.c - computes keep-all, the floor and the precedence relations of a graph, each at most once. One lock protects the
 * results. */
#include "planner/floor/problem.h"

#include <pthread.h>

#include "estimator/graph/order_rules.h"
#include "planner/floor/floor.h"
#include "planner/order/dag.h"
#include "planner/order/updates.h"

struct mp_problem {
    const mp_graph *graph;
    pthread_mutex_t mutex; /* protects all members below */
    mp_step *keep_all;
    mp_timeline *timeline; /* the timeline of keep_all */
    mp_step *early_steps;
    mp_timeline *early; /* the timeline of early_steps; NULL: not computed, or equal to keep_all */
    int *cuts;
    size_t n_cuts;
    mp_precedence *order[2]; /* indexed by list_order */
    bool has_floor;
    int64_t floor_bytes;
    mp_floor_reason reason;
};

mp_status mp_problem_new(const mp_graph *graph, mp_problem **out, mp_error *err)
{
    mp_problem *problem = mp_alloc(1, sizeof *problem);
    MP_ENSURE(problem, err, MP_NOMEM, "out of memory for the problem of '%s'", graph->name);
    problem->graph = graph;
    pthread_mutex_init(&problem->mutex, NULL);
    *out = problem;
    return MP_OK;
}

void mp_problem_free(mp_problem *problem)
{
    if (!problem) return;
    mp_free(problem->keep_all);
    mp_timeline_free(problem->timeline);
    mp_free(problem->early_steps);
    mp_timeline_free(problem->early);
    mp_free(problem->cuts);
    for (int k = 0; k < 2; k++) mp_precedence_free(problem->order[k]);
    pthread_mutex_destroy(&problem->mutex);
    mp_free(problem);
}

const mp_graph *mp_problem_graph(const mp_problem *problem)
{
    return problem->graph;
}

static mp_status find_keep_all(mp_problem *problem, mp_error *err)
{
    const size_t n = problem->graph->n_nodes;
    if (problem->timeline) return MP_OK;
    if (!problem->keep_all) problem->keep_all = mp_alloc(n, sizeof *problem->keep_all);
    MP_ENSURE(problem->keep_all, err, MP_NOMEM, "out of memory for a schedule of %zu steps", n);
    return mp_timeline_build(problem->graph, problem->keep_all, mp_keep_all(problem->graph, problem->keep_all),
                             &problem->timeline, err);
}

static mp_status find_order(mp_problem *problem, bool list_order, mp_error *err)
{
    if (problem->order[list_order]) return MP_OK;
    return mp_precedence_new(problem->graph, list_order, &problem->order[list_order], err);
}

static mp_status find_floor(mp_problem *problem, mp_error *err)
{
    if (problem->has_floor) return MP_OK;
    if (problem->graph->has_copies) {
        MP_CHECK(mp_floor_explained(problem->graph, &problem->floor_bytes, &problem->reason, err));
    } else {
        MP_CHECK(find_order(problem, false, err));
        MP_CHECK(mp_floor_of(problem->order[false], &problem->floor_bytes, &problem->reason, err));
    }
    problem->has_floor = true;
    return MP_OK;
}

mp_status mp_problem_keep_all(mp_problem *problem, const mp_step **steps, const mp_timeline **timeline, mp_error *err)
{
    pthread_mutex_lock(&problem->mutex);
    const mp_status st = find_keep_all(problem, err);
    pthread_mutex_unlock(&problem->mutex);
    if (st != MP_OK) return st;
    *steps = problem->keep_all;
    *timeline = problem->timeline;
    return MP_OK;
}

static mp_status find_earliest(mp_problem *problem, mp_error *err)
{
    const mp_graph *graph = problem->graph;
    size_t n;
    MP_CHECK(find_keep_all(problem, err));
    if (problem->early || mp_update_order_of(graph).keeps_inputs) return MP_OK;
    mp_free(problem->early_steps);
    problem->early_steps = NULL;
    MP_CHECK(mp_updates_place_early(graph, &problem->early_steps, &n, err));
    return mp_timeline_build(graph, problem->early_steps, n, &problem->early, err);
}

mp_status mp_problem_earliest(mp_problem *problem, const mp_step **steps, const mp_timeline **timeline, mp_error *err)
{
    pthread_mutex_lock(&problem->mutex);
    const mp_status st = find_earliest(problem, err);
    pthread_mutex_unlock(&problem->mutex);
    if (st != MP_OK) return st;
    *steps = problem->early ? problem->early_steps : problem->keep_all;
    *timeline = problem->early ? problem->early : problem->timeline;
    return MP_OK;
}

static mp_status find_cuts(mp_problem *problem, mp_error *err)
{
    if (problem->cuts) return MP_OK;
    MP_OWNED int *cuts = mp_alloc(problem->graph->n_storages, sizeof *cuts);
    MP_ENSURE(cuts, err, MP_NOMEM, "%zu storages", problem->graph->n_storages);
    MP_CHECK(mp_cut_tensors(problem->graph, cuts, &problem->n_cuts, err));
    problem->cuts = cuts;
    cuts = NULL;
    return MP_OK;
}

mp_status mp_problem_cuts(mp_problem *problem, const int **storages, size_t *n, mp_error *err)
{
    pthread_mutex_lock(&problem->mutex);
    const mp_status st = find_cuts(problem, err);
    pthread_mutex_unlock(&problem->mutex);
    if (st != MP_OK) return st;
    *storages = problem->cuts;
    *n = problem->n_cuts;
    return MP_OK;
}

mp_status mp_problem_order(mp_problem *problem, bool list_order, const mp_precedence **out, mp_error *err)
{
    pthread_mutex_lock(&problem->mutex);
    const mp_status st = find_order(problem, list_order, err);
    pthread_mutex_unlock(&problem->mutex);
    if (st == MP_OK) *out = problem->order[list_order];
    return st;
}

mp_status mp_problem_floor(mp_problem *problem, int64_t *floor_bytes, mp_floor_reason *reason, mp_error *err)
{
    pthread_mutex_lock(&problem->mutex);
    const mp_status st = find_floor(problem, err);
    pthread_mutex_unlock(&problem->mutex);
    if (st != MP_OK) return st;
    *floor_bytes = problem->floor_bytes;
    if (reason) *reason = problem->reason;
    return MP_OK;
}

mp_status mp_problem_of_ticks(const mp_graph *graph, mp_problem *other, mp_problem **out, mp_error *err)
{
    int64_t floor_bytes;
    mp_floor_reason reason;
    MP_CHECK(mp_problem_floor(other, &floor_bytes, &reason, err));
    MP_CHECK(mp_problem_new(graph, out, err));
    (*out)->has_floor = true;
    (*out)->floor_bytes = floor_bytes;
    (*out)->reason = reason;
    return MP_OK;
}
