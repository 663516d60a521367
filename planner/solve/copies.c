/* copies.c - tries waits and positions of copies, nearest first, with the timeline as judge. */
#include "planner/solve/copies.h"

#include <string.h>

#include "estimator/graph/liveness.h"
#include "planner/math/tuning.h"

typedef struct search {
    const mp_request *request;
    mp_step *steps, *trial, *best; /* the plan so far; the one that is tried; the best of the present copy */
    int n;
    int64_t n_trials;          /* how many there may still be */
    int64_t ticks, peak_bytes; /* of `best` */
    mp_error *err;
} search;

static bool is_copy(const search *x, mp_step step)
{
    const mp_graph *graph = x->request->graph;
    return graph->nodes[step.node].alternatives[step.alternative].channel > MP_CHANNEL_SECOND_STREAM;
}

/* Takes x->trial as x->best if it obeys the rules, fits, and takes less time, or as much and less memory. */
static mp_status judge(search *x)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    mp_error refused = {0};
    if (x->n_trials-- <= 0) return MP_OK;
    const mp_status st = mp_timeline_build(x->request->graph, x->trial, (size_t)x->n, &timeline, &refused);
    if (st == MP_INVALID) return MP_OK;
    MP_ENSURE(st == MP_OK, x->err, st, "%s", refused.message);
    if (!mp_request_fits(x->request, timeline)) return MP_OK;
    if (timeline->ticks > x->ticks || (timeline->ticks == x->ticks && timeline->peak_bytes >= x->peak_bytes)) return MP_OK;
    x->ticks = timeline->ticks;
    x->peak_bytes = timeline->peak_bytes;
    memcpy(x->best, x->trial, (size_t)x->n * sizeof *x->best);
    return MP_OK;
}

/* Moves step t of x->steps to an earlier position in x->trial. Waits for steps from there on shift with them; the step that
 * waited for nothing is waited for where the next step was. */
static void move_up(search *x, int t, int to)
{
    const mp_step moved = x->steps[t];
    memcpy(x->trial, x->steps, (size_t)x->n * sizeof *x->trial);
    memmove(x->trial + to + 1, x->steps + to, (size_t)(t - to) * sizeof *x->trial);
    x->trial[to] = moved;
    for (int k = 0; k < x->n; k++) {
        const int end = mp_step_end(x->steps, k > to && k <= t ? k - 1 : k);
        if (k != to && mp_step_is_issued(x->trial[k]) && end > to && end <= t) mp_steps_issue(x->trial, k, k + 1, end + 1);
    }
    if (!mp_step_is_issued(moved) && to < t) mp_steps_issue(x->trial, to, to + 1, t + 1);
}

/* Tries later waits for the copy in step t, and earlier positions. */
static mp_status improve(search *x, int t)
{
    memcpy(x->best, x->steps, (size_t)x->n * sizeof *x->best);
    for (int until = t + 2; until <= x->n && until - t <= MP_COPY_TRIALS; until++) {
        memcpy(x->trial, x->steps, (size_t)x->n * sizeof *x->trial);
        mp_steps_issue(x->trial, t, t + 1, until);
        MP_CHECK(judge(x));
    }
    for (int to = t - 1; to >= 0 && t - to <= MP_COPY_TRIALS; to--) {
        move_up(x, t, to);
        MP_CHECK(judge(x));
    }
    memcpy(x->steps, x->best, (size_t)x->n * sizeof *x->steps);
    return MP_OK;
}

mp_status mp_copies_issue(const mp_request *request, const mp_plan *plan, mp_step *steps, bool *is_faster, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    search x = {.request = request,
                .steps = steps,
                .trial = mp_pool_alloc(pool, plan->n_steps, sizeof *x.trial),
                .best = mp_pool_alloc(pool, plan->n_steps, sizeof *x.best),
                .n = (int)plan->n_steps,
                .n_trials = MP_COPY_WORK / (int64_t)(plan->n_steps + 1),
                .ticks = plan->ticks,
                .peak_bytes = plan->peak_bytes,
                .err = err};
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for a plan of %zu steps", plan->n_steps);
    memcpy(steps, plan->steps, plan->n_steps * sizeof *steps);
    for (int64_t last = INT64_MAX; x.ticks < last && x.n_trials > 0;) {
        last = x.ticks;
        for (int t = 0; t < x.n; t++)
            if (is_copy(&x, steps[t])) MP_CHECK(improve(&x, t));
    }
    *is_faster = x.ticks < plan->ticks;
    return MP_OK;
}
