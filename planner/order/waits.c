/* waits.c - moves updates into the time for which compute waits for copies and exchanges.
 *
 * Example: the update of w2 could run as soon as the gradient of w2 is complete. The update does not need the result of the
 * exchange. So the update runs while the exchange is in progress, and costs less time:
 *
 * backward 2, update w2, exchange, backward 1    compute waits for the whole exchange
 * backward 2, exchange, update w2, backward 1    compute waits for the rest of the exchange */
#include "planner/order/waits.h"

#include <string.h>

#include "estimator/base/list.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "memplan/makespan.h"
#include "planner/math/tuning.h"

typedef struct search {
    const mp_graph *graph;
    mp_step *steps, *trial;
    int n, n_trials; /* n_trials: number of attempts left */
    int64_t most_bytes, ticks;
    int64_t *ends; /* scratch, per step */
    mp_error *err;
} search;

mp_status mp_wait_ticks(const mp_graph *graph, const mp_step *steps, int n, int t, int64_t *ends, int64_t *idle, mp_error *err)
{
    int64_t ticks, before = 0;
    MP_CHECK(mp_makespan(graph, steps, (size_t)n, ends, &ticks, err));
    for (int k = 0; k < t; k++)
        if (graph->nodes[steps[k].node].alternatives[steps[k].alternative].channel <= MP_CHANNEL_SECOND_STREAM)
            before = ends[k];
    if (t < n) ticks = ends[t] - graph->nodes[steps[t].node].alternatives[steps[t].alternative].ticks;
    *idle = ticks - before;
    return MP_OK;
}

void mp_steps_postpone(const mp_step *steps, int n, int from, int to, mp_step *out)
{
    memcpy(out, steps, (size_t)n * sizeof *out);
    memmove(out + from, steps + from + 1, (size_t)(to - from) * sizeof *out);
    out[to] = steps[from];
    mp_steps_issue(out, to, to + 1, 0);
    for (int k = 0; k <= to; k++) {
        const int end = mp_step_end(steps, k), place = k > from ? k - 1 : k;
        if (k == from || !mp_step_is_issued(steps[k]) || end <= from || end > to) continue;
        mp_steps_issue(out, place, place + 1, end - 1 > place + 1 ? end - 1 : 0);
    }
}

static const mp_alternative *alternative_of(const search *x, int t)
{
    return &x->graph->nodes[x->steps[t].node].alternatives[x->steps[t].alternative];
}

/* True if step u is an update that runs on compute and uses no result of step t. */
static bool may_run_during(const search *x, int u, int t)
{
    const mp_alternative *a = alternative_of(x, u), *copy = alternative_of(x, t);
    if (x->graph->nodes[x->steps[u].node].phase != MP_PHASE_UPDATE || mp_step_is_issued(x->steps[u])) return false;
    for (size_t k = 0; k < copy->n_writes; k++)
        if (mp_list_has(a->reads, a->n_reads, copy->writes[k])) return false;
    return a->channel <= MP_CHANNEL_SECOND_STREAM;
}

/* Tries the order in which the update in step u runs right after the copy in step t, while the copy is in progress. */
static mp_status postpone(search *x, int u, int t, bool *is_better)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    mp_error refused = {0};
    x->n_trials--;
    mp_steps_postpone(x->steps, x->n, u, t, x->trial);
    if (!mp_step_is_issued(x->steps[t])) mp_steps_issue(x->trial, t - 1, t, t + 1);
    const mp_status st = mp_timeline_build(x->graph, x->trial, (size_t)x->n, &timeline, &refused);
    MP_ENSURE(st == MP_OK || st == MP_INVALID, x->err, st, "%s", refused.message);
    *is_better = st == MP_OK && timeline->ticks < x->ticks && timeline->peak_bytes <= x->most_bytes;
    if (!*is_better) return MP_OK;
    x->ticks = timeline->ticks;
    memcpy(x->steps, x->trial, (size_t)x->n * sizeof *x->steps);
    return MP_OK;
}

/* Moves earlier updates into the wait for the copy in step t. */
static mp_status fill(search *x, int t)
{
    int64_t idle;
    MP_CHECK(mp_wait_ticks(x->graph, x->steps, x->n, mp_step_end(x->steps, t), x->ends, &idle, x->err));
    for (int u = t - 1; u >= 0 && t - u <= MP_COPY_TRIALS && idle > 0 && x->n_trials > 0; u--) {
        bool is_better;
        if (!may_run_during(x, u, t)) continue;
        const int64_t ticks = alternative_of(x, u)->ticks;
        MP_CHECK(postpone(x, u, t, &is_better));
        if (!is_better) continue;
        idle -= ticks;
        t--;
    }
    return MP_OK;
}

mp_status mp_waits_hide_updates(const mp_graph *graph, mp_step *steps, int n, int64_t budget_bytes, mp_error *err)
{
    const mp_update_order order = mp_update_order_of(graph);
    if (!graph->has_copies || order.keeps_inputs || mp_graph_n_state_copies(graph)) return MP_OK;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    search x = {.graph = graph,
                .steps = steps,
                .trial = mp_pool_alloc(pool, (size_t)n, sizeof *x.trial),
                .ends = mp_pool_alloc(pool, (size_t)n, sizeof *x.ends),
                .n = n,
                .n_trials = MP_WAIT_WORK / (n + 1),
                .err = err};
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for a plan of %d steps", n);
    MP_CHECK(mp_timeline_build(graph, steps, (size_t)n, &timeline, err));
    x.ticks = timeline->ticks;
    x.most_bytes = timeline->peak_bytes > budget_bytes ? timeline->peak_bytes : budget_bytes;
    for (int t = n - 1; t > 0 && x.n_trials > 0; t--)
        if (alternative_of(&x, t)->channel > MP_CHANNEL_SECOND_STREAM) MP_CHECK(fill(&x, t));
    return MP_OK;
}
