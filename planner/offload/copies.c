/* copies.c - issues copies and collectives earlier than they are needed and waits for them later, so that compute hides them.
 * First all copies are moved at once, as far as the live bytes permit. Then they are moved one by one, and near positions are
 * tried first. The timeline judges every attempt. Below, "copy" includes collectives.
 *
 * To move all copies at once, the plan's steps are visited in order. The begin of a copy is moved to an earlier step, until the
 * compute in between takes `lead` times the copy's seconds. The wait for the copy is moved to a later step by the same rule. A
 * move ends before a step that must not overlap with the copy. It also ends where the additional live bytes exceed the free
 * memory. Example: two blocks with parameters w1 and w2 that are gathered again for backward, and lead 1:
 *
 * gather w2, backward 2, gather w1, backward 1   compute waits for each gather
 * gather w2, gather w1, backward 2, backward 1   w1 is gathered while block 2 runs, and is live that long */
#include "planner/offload/copies.h"

#include <string.h>

#include "estimator/base/list.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "memplan/makespan.h"
#include "planner/math/tuning.h"
#include "planner/order/order.h"
#include "planner/order/waits.h"

typedef struct search {
    const mp_request *request;
    /* steps: those of the current plan. trial: those of the present attempt. best: those of the best attempt for the copy that
     * is being moved */
    mp_step *steps, *trial, *best;
    int n;
    int64_t n_trials;          /* number of attempts left */
    int64_t ticks, peak_bytes; /* ticks: makespan of the steps in `best`; peak_bytes: their peak */
    mp_error *err;
    /* per step of the plan, used while all copies are moved at once: */
    int64_t *live_bytes; /* bytes live at the step, if all copies are issued as early and awaited as late as in the attempt */
    int *begin, *wait;   /* for a copy. begin: the step before which it begins. wait: the step that waits for it */
    /* linked lists of copies. first, per step: the first copy that begins before it. next, per copy: the next copy with the
     * same begin; -1: none */
    int *first, *next;
    int *position; /* per step: its index in the order after the copies were moved */
    int64_t *ends; /* scratch, per step */
} search;

/* Values of `lead`: the compute time between a copy's begin and its wait, as a multiple of the copy's seconds. Values above 1
 * allow for earlier copies on the channel. */
static const double leads[] = {1, 2, 4};

static bool is_copy(const search *x, mp_step step)
{
    const mp_graph *graph = x->request->graph;
    return graph->nodes[step.node].alternatives[step.alternative].channel > MP_CHANNEL_SECOND_STREAM;
}

/* True for an exchange with other ranks. Copies to another tier are optional, and copies back are alternatives of a node. */
static bool is_exchange(const search *x, mp_step step)
{
    const mp_node *node = &x->request->graph->nodes[step.node];
    return is_copy(x, step) && !(node->flags & MP_NODE_OPTIONAL) && !node->alternatives[step.alternative].returns;
}

/* Compares the attempt x->trial with x->best. The attempt replaces x->best if it is valid, is within the budgets, and takes
 * less time. If both take the same time, it must need less memory. */
static mp_status judge(search *x)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    mp_error refused = {0};
    bool is_kept = true;
    if (x->n_trials-- <= 0) return MP_OK;
    const mp_status st = mp_timeline_build(x->request->graph, x->trial, (size_t)x->n, &timeline, &refused);
    if (st == MP_INVALID) return MP_OK;
    MP_ENSURE(st == MP_OK, x->err, st, "%s", refused.message);
    if (!mp_request_fits(x->request, timeline)) return MP_OK;
    if (x->request->keep_order) MP_CHECK(mp_order_is_kept(x->request->graph, x->trial, (size_t)x->n, &is_kept, x->err));
    if (!is_kept) return MP_OK;
    if (timeline->ticks > x->ticks || (timeline->ticks == x->ticks && timeline->peak_bytes >= x->peak_bytes)) return MP_OK;
    x->ticks = timeline->ticks;
    x->peak_bytes = timeline->peak_bytes;
    memcpy(x->best, x->trial, (size_t)x->n * sizeof *x->best);
    return MP_OK;
}

static const mp_alternative *alternative_of(const search *x, int t)
{
    return &x->request->graph->nodes[x->steps[t].node].alternatives[x->steps[t].alternative];
}

/* True if two lists of storages have a common element. */
static bool shares(const int *list, size_t n, const int *storages, size_t n_storages)
{
    for (size_t i = 0; i < n; i++)
        if (mp_list_has(storages, n_storages, list[i])) return true;
    return false;
}

static bool touches(const mp_alternative *a, const int *storages, size_t n)
{
    return shares(a->reads, a->n_reads, storages, n) || shares(a->writes, a->n_writes, storages, n) ||
           shares(a->adds, a->n_adds, storages, n);
}

/* True if the alternatives `a` and `other` must not overlap in time, because `other` changes an input of `a` or uses an output
 * of `a`. */
static bool is_apart(const mp_alternative *a, const mp_alternative *other)
{
    return shares(other->writes, other->n_writes, a->reads, a->n_reads) ||
           shares(other->adds, other->n_adds, a->reads, a->n_reads) || touches(other, a->writes, a->n_writes) ||
           touches(other, a->adds, a->n_adds);
}

static int64_t bytes_on_device(const search *x, const int *storages, size_t n)
{
    const mp_graph *graph = x->request->graph;
    int64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const mp_storage *storage = &graph->storages[storages[i]];
        if (storage->tier == 0 && !mp_storage_is_static(storage)) bytes += storage->bytes;
    }
    return bytes;
}

/* Finds how much earlier the copy in step t can begin, and how much later its wait can be. Adds to live_bytes the bytes that
 * are live longer because of the moves. */
static void widen(search *x, int t, int64_t room_bytes, double lead)
{
    const mp_alternative *a = alternative_of(x, t);
    const int64_t made = bytes_on_device(x, a->writes, a->n_writes) + a->workspace_bytes;
    const int64_t held = bytes_on_device(x, a->reads, a->n_reads) + made;
    const int64_t ticks = (int64_t)(lead * (double)a->ticks);
    const int end = mp_step_end(x->steps, t);
    int64_t passed = 0;
    int until = t + 1, from = t;
    for (; until < x->n && (until < end || passed < ticks); until++) {
        const mp_alternative *other = alternative_of(x, until);
        if (until >= end && (is_apart(a, other) || x->live_bytes[until] + held > room_bytes)) break;
        if (other->channel == MP_CHANNEL_COMPUTE) passed += other->ticks;
    }
    for (int s = end; s < until; s++) x->live_bytes[s] += held;
    for (passed = 0; from > 0 && passed < ticks; from--) {
        const mp_alternative *other = alternative_of(x, from - 1);
        if (is_apart(a, other)) {
            const int over = mp_step_end(x->steps, from - 1);
            from = over < t ? over : t;
            break;
        }
        if (x->live_bytes[from - 1] + made > room_bytes) break;
        if (other->channel == MP_CHANNEL_COMPUTE) passed += other->ticks;
    }
    for (int s = from; s < t; s++) x->live_bytes[s] += made;
    x->begin[t] = from;
    x->wait[t] = until;
}

/* Writes the steps to x->trial, sorted by their new begins. Step x->wait waits for a copy. If that step was moved too, the next
 * step that was not moved waits for the copy. */
static void put_in_order(search *x)
{
    int at = 0;
    for (int k = 0; k < x->n; k++) x->first[k] = -1;
    for (int t = x->n - 1; t >= 0; t--) {
        if (x->begin[t] == t) continue;
        x->next[t] = x->first[x->begin[t]];
        x->first[x->begin[t]] = t;
    }
    for (int k = 0; k < x->n; k++) {
        for (int t = x->first[k]; t >= 0; t = x->next[t]) x->position[t] = at++;
        if (x->begin[k] == k) x->position[k] = at++;
    }
    for (int t = 0; t < x->n; t++) {
        int until = x->wait[t];
        while (until < x->n && x->begin[until] < until) until++;
        const int wait = until < x->n ? x->position[until] : x->n, place = x->position[t];
        x->trial[place] = x->steps[t];
        const bool is_beside = is_copy(x, x->steps[t]) || mp_step_is_issued(x->steps[t]);
        mp_steps_issue(x->trial, place, place + 1, is_beside && wait > place + 1 ? wait : 0);
    }
}

/* Moves all copies at once: tries to begin each copy earlier and to wait for it later. */
static mp_status improve_all(search *x, double lead, mp_error *err)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    MP_CHECK(mp_timeline_build(x->request->graph, x->steps, (size_t)x->n, &timeline, err));
    memcpy(x->live_bytes, timeline->live_bytes, (size_t)x->n * sizeof *x->live_bytes);
    for (int t = 0; t < x->n; t++) {
        x->begin[t] = t;
        x->wait[t] = mp_step_end(x->steps, t);
    }
    for (int t = 0; t < x->n; t++)
        if (is_copy(x, x->steps[t])) widen(x, t, x->request->budget_bytes - timeline->static_bytes, lead);
    put_in_order(x);
    return judge(x);
}

/* Writes to x->trial the order in which step t is at an earlier position. Adjusts the waits of the steps in between. If step t
 * was not issued before, the step that followed it now waits for it. */
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

/* For the copy in step t: first tries later steps that wait for it, then earlier positions. */
static mp_status improve(search *x, int t)
{
    memcpy(x->best, x->steps, (size_t)x->n * sizeof *x->best);
    for (int until = t + 2; until <= x->n && until - t <= MP_COPY_TRIALS && x->n_trials > 0; until++) {
        memcpy(x->trial, x->steps, (size_t)x->n * sizeof *x->trial);
        mp_steps_issue(x->trial, t, t + 1, until);
        MP_CHECK(judge(x));
    }
    for (int to = t - 1; to >= 0 && t - to <= MP_COPY_TRIALS && x->n_trials > 0; to--) {
        move_up(x, t, to);
        MP_CHECK(judge(x));
    }
    memcpy(x->steps, x->best, (size_t)x->n * sizeof *x->steps);
    return MP_OK;
}

/* Writes to x->trial the order in which step t runs before the earlier step `to`. Each issued step is still awaited by the same
 * steps. */
static void move_ahead(search *x, int t, int to)
{
    memcpy(x->trial, x->steps, (size_t)x->n * sizeof *x->trial);
    memmove(x->trial + to + 1, x->steps + to, (size_t)(t - to) * sizeof *x->trial);
    x->trial[to] = x->steps[t];
    for (int k = 0; k < t; k++) {
        const int end = mp_step_end(x->steps, k), place = k < to ? k : k + 1;
        if (!mp_step_is_issued(x->steps[k]) || end < to || end > t) continue;
        mp_steps_issue(x->trial, place, place + 1, end == t && k < to ? to : end + 1);
    }
}

static bool is_update(const search *x, int t)
{
    return x->request->graph->nodes[x->steps[t].node].phase == MP_PHASE_UPDATE;
}

/* True if step k uses a result of the copy in step t. */
static bool needs_result(const search *x, int t, int k)
{
    const mp_alternative *a = alternative_of(x, t), *other = alternative_of(x, k);
    for (size_t i = 0; i < a->n_writes; i++)
        if (!mp_storage_is_static(&x->request->graph->storages[a->writes[i]]) && touches(other, &a->writes[i], 1)) return true;
    return touches(other, a->adds, a->n_adds);
}

/* Writes to x->trial the order in which the copy in step t begins right after the later step `after`. The next step that must
 * not overlap with the copy waits for it. */
static void move_behind(search *x, int t, int after)
{
    const mp_alternative *a = alternative_of(x, t);
    int until = after + 1;
    while (until < x->n && !is_apart(a, alternative_of(x, until))) until++;
    mp_steps_postpone(x->steps, x->n, t, after, x->trial);
    mp_steps_issue(x->trial, after, after + 1, until > after + 1 ? until : 0);
}

/* A step that must not overlap with the copy in step t, but does not need its result, ends the time in which compute can hide
 * the copy. Tries to begin the copy right after each such step. Example: an exchange on the same link. Updates stay in place,
 * and no copy passes one. */
static mp_status postpone(search *x, int t)
{
    memcpy(x->best, x->steps, (size_t)x->n * sizeof *x->best);
    if (is_update(x, t) || !is_exchange(x, x->steps[t])) return MP_OK;
    for (int k = t + 1; k < x->n && k - t <= MP_COPY_TRIALS && x->n_trials > 0 && !needs_result(x, t, k); k++) {
        if (is_update(x, k)) break;
        if (!is_apart(alternative_of(x, t), alternative_of(x, k))) continue;
        move_behind(x, t, k);
        MP_CHECK(judge(x));
    }
    memcpy(x->steps, x->best, (size_t)x->n * sizeof *x->steps);
    return MP_OK;
}

/* True if step k may run before the earlier step `to`, as far as results show: it uses no result of the steps in between and
 * none of the copy in step t. The timeline judges the other rules. Without this check most attempts fail, and large plans use
 * up their attempts at the first waits. */
static bool may_move_ahead(const search *x, int t, int k, int to)
{
    const mp_alternative *a = alternative_of(x, k);
    if (is_apart(alternative_of(x, t), a)) return false;
    for (int j = to; j < k; j++) {
        const mp_alternative *other = alternative_of(x, j);
        if (touches(a, other->writes, other->n_writes) || touches(a, other->adds, other->n_adds)) return false;
    }
    return true;
}

/* If compute waits for the copy that step t issues, moves later compute steps into the wait. Most of them are recomputations,
 * which then cost no time. Updates stay in place, and only updates that are fused into backward are passed. */
static mp_status fill_wait(search *x, int t)
{
    int64_t idle;
    int end = mp_step_end(x->steps, t);
    MP_CHECK(mp_wait_ticks(x->request->graph, x->steps, x->n, end, x->ends, &idle, x->err));
    for (int k = end + 1; k < x->n && k - end <= MP_COPY_TRIALS && idle > 0 && x->n_trials > 0; k++) {
        const int64_t before = x->ticks;
        if (is_update(x, k) && mp_update_order_of(x->request->graph).keeps_inputs) break;
        if (is_update(x, k) || is_copy(x, x->steps[k]) || !may_move_ahead(x, t, k, end)) continue;
        move_ahead(x, k, end);
        /* the copy is now awaited one step later */
        mp_steps_issue(x->trial, t, t + 1, end + 1);
        MP_CHECK(judge(x));
        if (x->ticks == before) continue;
        idle -= alternative_of(x, k)->ticks;
        end++;
        memcpy(x->steps, x->best, (size_t)x->n * sizeof *x->steps);
    }
    return MP_OK;
}

/* True if step u may run right after the later copy in step t: neither the copy nor a step in between uses a result of
 * step u or changes an input of step u. Step u may pass updates only if updates are fused into backward. The timeline judges
 * the other rules, but not the order of updates. */
static bool may_move_behind(const search *x, int u, int t)
{
    const bool may_pass_updates = !mp_update_order_of(x->request->graph).keeps_inputs;
    for (int j = u + 1; j <= t; j++)
        if (is_apart(alternative_of(x, u), alternative_of(x, j)) || (is_update(x, j) && !may_pass_updates)) return false;
    return !is_apart(alternative_of(x, t), alternative_of(x, u));
}

/* Sets *copy to the last copy before step t if compute waits for it, otherwise to -1. */
static mp_status waited_before(search *x, int t, int *copy)
{
    int64_t idle = 0;
    *copy = t - 1;
    while (*copy >= 0 && !is_copy(x, x->steps[*copy])) --*copy;
    if (*copy < 0) return MP_OK;
    MP_CHECK(mp_wait_ticks(x->request->graph, x->steps, x->n, mp_step_end(x->steps, *copy), x->ends, &idle, x->err));
    if (idle <= 0) *copy = -1;
    return MP_OK;
}

/* If compute waits for the copy that step t issues, moves compute steps between step `after` and step t into the wait. Most of
 * them compute gradients of weights, which no step needs soon. Steps that may move into the wait for the copy in step `after`
 * stay in place. `after` -1: all earlier steps may move. */
static mp_status delay(search *x, int t, int after)
{
    int64_t idle;
    MP_CHECK(mp_wait_ticks(x->request->graph, x->steps, x->n, mp_step_end(x->steps, t), x->ends, &idle, x->err));
    for (int u = t - 1; u > after && t - u <= MP_COPY_TRIALS && idle > 0 && x->n_trials > 0; u--) {
        const int64_t before = x->ticks;
        const int end = after < 0 ? x->n : mp_step_end(x->steps, after);
        if (is_copy(x, x->steps[u]) || is_update(x, u) || !may_move_behind(x, u, t)) continue;
        if (u > end && may_move_ahead(x, after, u, end)) continue;
        mp_steps_postpone(x->steps, x->n, u, t, x->trial);
        if (!mp_step_is_issued(x->steps[t])) mp_steps_issue(x->trial, t - 1, t, t + 1);
        MP_CHECK(judge(x));
        if (x->ticks == before) continue;
        idle -= alternative_of(x, u)->ticks;
        t--;
        memcpy(x->steps, x->best, (size_t)x->n * sizeof *x->steps);
    }
    return MP_OK;
}

/* Moves earlier steps into the wait for the copy in step t. If compute also waits for the previous copy, skips steps that may
 * move into the wait for the previous copy. */
static mp_status delay_near(search *x, int t)
{
    int after;
    MP_CHECK(waited_before(x, t, &after));
    return delay(x, t, after);
}

static mp_status delay_any(search *x, int t)
{
    return delay(x, t, -1);
}

/* Moves updates into waits. */
static mp_status hide_updates(search *x)
{
    memcpy(x->best, x->steps, (size_t)x->n * sizeof *x->best);
    memcpy(x->trial, x->steps, (size_t)x->n * sizeof *x->trial);
    MP_CHECK(mp_waits_hide_updates(x->request->graph, x->trial, x->n, x->request->budget_bytes, x->err));
    MP_CHECK(judge(x));
    memcpy(x->steps, x->best, (size_t)x->n * sizeof *x->steps);
    return MP_OK;
}

/* Applies a move to each copy, from the last to the first. */
static mp_status for_each_copy(search *x, mp_status (*move)(search *, int))
{
    for (int t = x->n - 1; t >= 0 && x->n_trials > 0; t--)
        if (is_copy(x, x->steps[t])) MP_CHECK(move(x, t));
    return MP_OK;
}

mp_status mp_copies_issue(const mp_request *request, const mp_plan *plan, mp_step *steps, bool *is_faster, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    search x = {.request = request,
                .steps = steps,
                .trial = mp_pool_alloc(pool, plan->n_steps, sizeof *x.trial),
                .best = mp_pool_alloc(pool, plan->n_steps, sizeof *x.best),
                .live_bytes = mp_pool_alloc(pool, plan->n_steps, sizeof *x.live_bytes),
                .begin = mp_pool_alloc(pool, plan->n_steps, sizeof *x.begin),
                .wait = mp_pool_alloc(pool, plan->n_steps, sizeof *x.wait),
                .first = mp_pool_alloc(pool, plan->n_steps, sizeof *x.first),
                .next = mp_pool_alloc(pool, plan->n_steps, sizeof *x.next),
                .position = mp_pool_alloc(pool, plan->n_steps, sizeof *x.position),
                .ends = mp_pool_alloc(pool, plan->n_steps, sizeof *x.ends),
                .n = (int)plan->n_steps,
                .n_trials = MP_COPY_WORK / (int64_t)(plan->n_steps + 1),
                .ticks = plan->ticks,
                .peak_bytes = plan->peak_bytes,
                .err = err};
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for a plan of %zu steps", plan->n_steps);
    memcpy(steps, plan->steps, plan->n_steps * sizeof *steps);
    memcpy(x.best, steps, plan->n_steps * sizeof *x.best);
    int64_t n_exchanges = 0;
    for (int t = 0; t < x.n; t++) n_exchanges += is_exchange(&x, steps[t]);
    for (size_t k = 0; k < sizeof leads / sizeof *leads; k++) MP_CHECK(improve_all(&x, leads[k], err));
    memcpy(steps, x.best, plan->n_steps * sizeof *steps);
    /* if there are too few trials to move all exchanges one by one, the moves that need few trials come first */
    if (n_exchanges && n_exchanges * 2 * MP_COPY_TRIALS > x.n_trials) {
        MP_CHECK(for_each_copy(&x, postpone));
        MP_CHECK(for_each_copy(&x, delay_near));
        MP_CHECK(for_each_copy(&x, fill_wait));
        MP_CHECK(for_each_copy(&x, delay_any));
    }
    for (int64_t last = INT64_MAX; x.ticks < last && x.n_trials > 0;) {
        last = x.ticks;
        for (int t = 0; t < x.n && x.n_trials > 0; t++)
            if (is_copy(&x, steps[t])) {
                MP_CHECK(improve(&x, t));
                MP_CHECK(postpone(&x, t));
                MP_CHECK(fill_wait(&x, t));
                MP_CHECK(delay_any(&x, t));
            }
        MP_CHECK(hide_updates(&x));
    }
    *is_faster = x.ticks < plan->ticks;
    return MP_OK;
}
