/* second_stream.c - issues the optimizer's updates on a second stream, so that they run parallel to compute. A group is a
 * sequence of successive updates. One group after the other is moved, as long as memory permits and the plan becomes faster. */
#include "memplan/second_stream.h"

#include <string.h>

#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "memplan/arena.h"
#include "memplan/check.h"
#include "planner/order/updates.h"
#include "planner/solve/solver.h"

enum { ROUNDS = 8 };

typedef struct search {
    const mp_graph *graph;
    mp_step *steps;
    int n;
    int64_t limit_bytes; /* largest live bytes that are allowed while updates overlap with a step */
    /* per step, and one for the end: time in ticks at which all issued steps for which it waits have ended */
    int64_t *done;
    int64_t second_free; /* time in ticks at which the second stream has finished all updates that were issued on it so far */
    mp_second_stream effect;
    mp_error *err;
} search;

static const mp_alternative *alternative_at(const search *x, int t)
{
    return &x->graph->nodes[x->steps[t].node].alternatives[x->steps[t].alternative];
}

static bool is_update(const search *x, int t)
{
    return x->graph->nodes[x->steps[t].node].phase == MP_PHASE_UPDATE;
}

/* Tries to issue the steps [first, end) of the plan on the second stream, so that step `until` waits for them. *yes is true if
 * the plan rules and the memory permit that. */
static mp_status fits(const search *x, int first, int end, int until, bool *yes)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    mp_error refused = {0};
    mp_steps_issue(x->steps, first, end, until);
    const mp_status st = mp_timeline_build(x->graph, x->steps, (size_t)x->n, &timeline, &refused);
    MP_ENSURE(st == MP_OK || st == MP_INVALID, x->err, st, "%s", refused.message);
    *yes = timeline != NULL;
    for (int t = end; t < until && *yes; t++) *yes = timeline->static_bytes + timeline->live_bytes[t] <= x->limit_bytes;
    return MP_OK;
}

/* Finds the latest step, up to `until`, that can wait for the issued steps; `end`: there is none. With a later wait the updates
 * overlap with more steps, and more bytes are live. */
static mp_status latest_within(const search *x, int first, int end, int until, int *out)
{
    int within = end, over = until + 1;
    for (int probe = until; over - within > 1; probe = within + (over - within) / 2) {
        bool yes = false;
        MP_CHECK(fits(x, first, end, probe, &yes));
        if (yes)
            within = probe;
        else
            over = probe;
    }
    mp_steps_issue(x->steps, first, end, within > end ? within : 0);
    *out = within;
    return MP_OK;
}

/* Issues the group of updates in steps [first, end). Compute reaches the group at time `clock`. If the group cannot overlap
 * with any other step, it stays in order. */
static mp_status place_group(search *x, int first, int end, int64_t clock)
{
    int64_t ticks = 0, passed = clock, start = clock > x->second_free ? clock : x->second_free;
    int until = end;
    for (int t = first; t < end; t++) ticks += alternative_at(x, t)->ticks;
    x->effect.update_ticks += ticks;
    x->effect.n_updates += (size_t)(end - first);
    for (; until < x->n && passed < start + ticks; until++)
        /* only the ticks of nodes other than updates count: other updates may also run on the second stream, and then do not
         * hide this group */
        if (!is_update(x, until)) passed += alternative_at(x, until)->ticks;
    if (passed > start) MP_CHECK(latest_within(x, first, end, until, &until));
    passed = clock;
    for (int t = end; t < until; t++)
        if (!is_update(x, t)) passed += alternative_at(x, t)->ticks;
    if (passed <= start) {
        mp_steps_issue(x->steps, first, end, 0);
        return MP_OK;
    }
    x->second_free = start + ticks;
    if (x->done[until] < start + ticks) x->done[until] = start + ticks;
    x->effect.n_beside += (size_t)(end - first);
    x->effect.hidden_ticks += passed < start + ticks ? passed - start : ticks;
    return MP_OK;
}

static mp_status place_all(search *x)
{
    int64_t clock = 0;
    x->effect = (mp_second_stream){0};
    x->second_free = 0;
    memset(x->done, 0, ((size_t)x->n + 1) * sizeof *x->done);
    mp_steps_issue(x->steps, 0, x->n, 0);
    for (int t = 0, end; t < x->n; t = end) {
        if (clock < x->done[t]) clock = x->done[t];
        for (end = t + 1; is_update(x, t) && end < x->n && is_update(x, end) && !x->done[end];) end++;
        if (is_update(x, t)) MP_CHECK(place_group(x, t, end, clock));
        for (int s = t; s < end && !mp_step_is_issued(x->steps[s]); s++) clock += alternative_at(x, s)->ticks;
    }
    return MP_OK;
}

/* Copies the plan's steps. If memory permits, moves updates to the earliest possible position. In keep-all, updates are the
 * last steps, so without the move no other step could overlap with them. */
static mp_status take_steps(search *x, const mp_plan *plan)
{
    const size_t n = plan->n_steps;
    size_t n_others = 0, n_early = 0;
    MP_OWNED mp_step *others = NULL, *early = NULL;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_ENSURE(x->steps = mp_alloc(n, sizeof *x->steps), x->err, MP_NOMEM, "out of memory for a plan of %zu steps", n);
    if (n) memcpy(x->steps, plan->steps, n * sizeof *x->steps);
    if (mp_update_order_of(x->graph).keeps_inputs) return MP_OK;
    MP_ENSURE(others = mp_alloc(n, sizeof *others), x->err, MP_NOMEM, "out of memory for a plan of %zu steps", n);
    for (size_t t = 0; t < n; t++)
        if (!is_update(x, (int)t)) others[n_others++] = plan->steps[t];
    MP_CHECK(mp_updates_place(x->graph, others, n_others, &early, &n_early, x->err));
    MP_CHECK(mp_timeline_build(x->graph, early, n_early, &timeline, x->err));
    if (n_early == n && timeline->peak_bytes <= x->limit_bytes) memcpy(x->steps, early, n * sizeof *early);
    return MP_OK;
}

static void clear(search *x)
{
    mp_free(x->steps);
}

mp_status mp_plan_second_stream(const mp_graph *graph, mp_plan **plan, mp_second_stream *effect, mp_error *err)
{
    const mp_plan *before = *plan;
    const int64_t limit = before->budget_bytes < MP_NO_LIMIT ? before->budget_bytes : mp_plan_need(before);
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_CLEARED_BY(clear) search x = {.graph = graph, .n = (int)before->n_steps, .err = err};
    MP_OWNED_BY(mp_plan_free) mp_plan *after = NULL;
    x.limit_bytes = before->budget_bytes < MP_NO_LIMIT ? limit : before->peak_bytes;
    MP_CHECK(take_steps(&x, before));
    x.done = mp_pool_alloc(pool, before->n_steps + 1, sizeof *x.done);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for a plan of %zu steps", before->n_steps);
    for (int round = 0; round < ROUNDS; round++) {
        MP_CHECK(place_all(&x));
        if (!x.effect.n_beside) break;
        mp_plan_free(after);
        after = NULL;
        MP_CHECK(mp_plan_with_steps(graph, before, x.steps, &after, err));
        if (mp_plan_need(after) <= limit) break;
        /* lowers the limit on live bytes by the bytes over the budget in round 0, by twice these bytes in round 1, and so on */
        x.limit_bytes -= (mp_plan_need(after) - limit) << round;
    }
    if (!after || mp_plan_need(after) > limit || !x.effect.n_beside) {
        *effect = (mp_second_stream){.n_updates = x.effect.n_updates, .update_ticks = x.effect.update_ticks};
        return MP_OK;
    }
    MP_CHECK(mp_plan_check(graph, after, err));
    *effect = x.effect;
    mp_plan_free(*plan);
    *plan = after;
    after = NULL;
    return MP_OK;
}
