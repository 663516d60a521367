/* planning_search.c - the searches of a planning handle, and plans that the caller supplies. */
#include <math.h>

#include "estimator/base/clock.h"
#include "memplan/check.h"
#include "memplan/smallest.h"
#include "planner/interface/planning.h"

static bool pass_on(const mp_progress *progress, void *data)
{
    const mp_planning *planning = data;
    return planning->progress(progress->elapsed_seconds, progress->best_ticks, progress->bound_ticks,
                              progress->smallest_peak_bytes, planning->progress_data);
}

void mp_planning_on_progress(mp_planning *planning, mp_planning_call call, void *data)
{
    if (!planning) return;
    planning->progress = call;
    planning->progress_data = data;
}

/* Returns the bytes of optimizer state in host memory. The limit of the slab includes them. */
static int64_t host_static_bytes(const mp_planning *planning)
{
    return mp_graph_static_bytes_in(planning->graph, MP_PLANNING_HOST);
}

/* Lays out the host memory of the answer's plan. If the answer has none, *out has no offsets. */
static mp_status slab_of(mp_planning *planning, const mp_answer *answer, mp_host_slab *out)
{
    const int64_t most = planning->slab_bytes - host_static_bytes(planning);
    *out = (mp_host_slab){0};
    if (!answer->plan) return MP_OK;
    return mp_host_slab_of(planning->graph, answer->plan, MP_PLANNING_HOST, planning->turn, most > 0 ? most : 0, out,
                           &planning->err);
}

/* Moves an answer, and the slab of its plan, to the handle. */
static mp_status take_answer(mp_planning *planning, mp_answer *answer, const mp_host_slab *slab, int64_t budget_bytes)
{
    mp_answer_free(&planning->answer);
    mp_free(planning->slab.offsets);
    planning->answer = *answer;
    planning->slab = *slab;
    planning->has_answer = true;
    *answer = (mp_answer){0};
    const mp_answer *now = &planning->answer;
    if (now->floor_node >= 0) {
        planning->floor_bytes = now->floor_bytes;
        planning->floor_node = now->floor_node;
    }
    if (now->plan) return MP_OK;
    return MP_FAIL(&planning->err, MP_INFEASIBLE,
                   "no plan found within %lld bytes; the smallest plan found needs %lld, and no plan needs less than %lld",
                   (long long)budget_bytes, (long long)now->smallest->peak_bytes, (long long)now->floor_bytes);
}

static mp_status find_smallest(const mp_request *request, mp_answer *answer, mp_error *err)
{
    const double limit = request->time_limit, start = mp_clock_now();
    *answer = (mp_answer){.floor_node = -1, .bound = {.ticks = -1}};
    MP_CHECK(mp_smallest_plan(request, false, &answer->plan, err));
    answer->floor_bytes = answer->plan->floor_bytes;
    answer->stopped = answer->plan->cut_short = limit > 0 && mp_clock_now() - start >= limit;
    return MP_OK;
}

/* Searches until the copies of the plan fit the slab. Live bytes do not fill a slab without gaps, and copies may stay longer
 * there than they are live. So each further search has a lower limit of live bytes. */
static mp_status search(mp_planning *planning, int64_t budget_bytes,
                        mp_status (*find)(const mp_request *request, mp_answer *answer, mp_error *err))
{
    const int64_t most = planning->slab_bytes, fixed = host_static_bytes(planning), least = fixed > 0 ? fixed : 1;
    mp_request asked = planning->request;
    int64_t *limit = &asked.tier_bytes[MP_PLANNING_HOST];
    asked.budget_bytes = budget_bytes;
    asked.progress = planning->progress ? pass_on : NULL;
    asked.progress_data = planning;
    if (most && (!*limit || *limit > most)) *limit = most;
    for (;;) {
        MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
        mp_host_slab slab;
        MP_CHECK(find(&asked, &answer, &planning->err));
        MP_CHECK(slab_of(planning, &answer, &slab));
        const int64_t over = most && slab.bytes ? fixed + slab.bytes - most : 0;
        if (over <= 0) return take_answer(planning, &answer, &slab, budget_bytes);
        mp_free(slab.offsets);
        MP_ENSURE(*limit > least, &planning->err, MP_INFEASIBLE, "no plan found whose copies fit into %lld bytes on the host",
                  (long long)most);
        *limit = *limit - least > 2 * over ? *limit - 2 * over : least;
    }
}

mp_status mp_planning_solve(mp_planning *planning, int64_t budget_bytes)
{
    MP_CHECK(mp_planning_begin_search(planning));
    return search(planning, budget_bytes, mp_solve_or_smallest);
}

mp_status mp_planning_solve_smallest(mp_planning *planning)
{
    MP_CHECK(mp_planning_begin_search(planning));
    return search(planning, MP_NO_LIMIT, find_smallest);
}

/* Returns the bytes that a plan needs on the host if they exceed a limit; 0: the plan fits. */
static int64_t host_bytes_over(const mp_planning *planning, const mp_plan *plan, const mp_host_slab *slab)
{
    const int64_t live = plan->tiers[MP_PLANNING_HOST].peak_bytes, whole = host_static_bytes(planning) + slab->bytes;
    const int64_t most = planning->request.tier_bytes[MP_PLANNING_HOST];
    if (most && live > most) return live;
    return planning->slab_bytes && slab->bytes && whole > planning->slab_bytes ? whole : 0;
}

mp_status mp_planning_take(mp_planning *planning, int64_t budget_bytes, const mp_plan *plan)
{
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {.floor_node = -1, .bound = {.ticks = -1}};
    mp_host_slab slab = {0};
    MP_CHECK(mp_planning_begin_search(planning));
    mp_error *err = &planning->err;
    const mp_graph *graph = planning->graph;
    if (!plan) return MP_FAIL(err, MP_INVALID, "the plan is NULL");
    answer.floor_bytes = plan->floor_bytes;
    MP_CHECK(mp_plan_check(graph, plan, err));
    MP_CHECK(mp_plan_new(graph, plan->solver, plan->steps, plan->n_steps, &answer.plan, err));
    mp_plan *own = answer.plan;
    answer.stopped = own->cut_short = plan->cut_short;
    own->floor_bytes = plan->floor_bytes;
    own->lower_bound_seconds = plan->lower_bound_seconds;
    if (plan->lower_bound_seconds >= 0) answer.bound.ticks = llround(plan->lower_bound_seconds / graph->tick_seconds);
    MP_CHECK(slab_of(planning, &answer, &slab));
    const int64_t over = host_bytes_over(planning, own, &slab);
    if (over || own->peak_bytes > budget_bytes) mp_free(slab.offsets);
    MP_ENSURE(!over, err, MP_INVALID, "the plan needs %lld bytes on the host, which is over the limit", (long long)over);
    if (own->peak_bytes > budget_bytes) {
        answer.smallest = own;
        answer.plan = NULL;
        slab = (mp_host_slab){0};
    }
    return take_answer(planning, &answer, &slab, budget_bytes);
}

mp_status mp_planning_replay(mp_planning *planning, int64_t budget_bytes, const mp_plan *plan)
{
    MP_OWNED_BY(mp_plan_free) mp_plan *replayed = NULL;
    /* without a plan or a finished graph this call fails, and its error names the missing part */
    if (!planning || !plan || !planning->is_finished) return mp_planning_take(planning, budget_bytes, NULL);
    MP_CHECK(mp_plan_new(planning->graph, plan->solver, plan->steps, plan->n_steps, &replayed, mp_planning_error(planning)));
    replayed->cut_short = plan->cut_short;
    return mp_planning_take(planning, budget_bytes, replayed);
}
