/* state.c - adds the copies of optimizer state to a plan of the graph without state copies, which does not contain them. Each
 * copy is placed so far from its update that compute hides it, as far as link and memory permit. */
#include "planner/offload/state.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "estimator/graph/without_state_copies.h"
#include "planner/order/updates.h"

/* ---- placing the copies before and after the updates ---- */

/* An update whose optimizer state is copied to the device before it, and back to its tier afterwards. */
typedef struct state_swap {
    int at; /* index of the update's step in the plan without state copies */
    /* copies of its state to the device begin before step `first` of the plan without state copies; step `last` waits for the
     * copies back */
    int first, last;
    int64_t bytes, in_ticks, out_ticks;
} state_swap;

typedef struct placing {
    const mp_graph *graph, *without_state;
    const mp_step *steps; /* the plan without state copies: n steps */
    int n, n_updates;
    state_swap *updates;
    /* per step of the plan without state copies. clock: ticks of compute before it. room: bytes of memory that are free while
     * it runs */
    int64_t *clock, *room;
    /* per step of the plan without state copies, and one for the end. at: its index in `all`. from: the index in `all` of the
     * first copy inserted before it */
    int *at, *from;
    int n_all;
    mp_step *all;        /* the steps of the plan with copies; there are n_all */
    state_swap **copies; /* per step of `all`: the update whose state the step copies; NULL: the step is no copy */
    mp_error *err;
} placing;

static int64_t sum_of(const placing *x, const mp_step *copies, size_t n, int64_t *bytes)
{
    int64_t ticks = 0;
    for (size_t k = 0; k < n; k++) {
        const mp_alternative *a = x->graph->nodes[copies[k].node].alternatives;
        if (bytes) *bytes += x->graph->storages[a->writes[0]].bytes;
        ticks += a->ticks;
    }
    return ticks;
}

/* Lists the updates whose state is copied. At first their copies are directly before and after them. Computes the ticks of
 * compute before each step. */
static mp_status list_updates(placing *x, mp_pool *pool)
{
    const size_t n = (size_t)x->n, most = n + mp_graph_n_state_copies(x->graph);
    int64_t clock = 0;
    x->updates = mp_pool_alloc(pool, n, sizeof *x->updates);
    x->clock = mp_pool_alloc(pool, n + 1, sizeof *x->clock);
    x->room = mp_pool_alloc(pool, n + 1, sizeof *x->room);
    x->at = mp_pool_alloc(pool, n + 1, sizeof *x->at);
    x->from = mp_pool_alloc(pool, n + 1, sizeof *x->from);
    x->all = mp_pool_alloc(pool, most, sizeof *x->all);
    x->copies = mp_pool_alloc(pool, most, sizeof *x->copies);
    MP_ENSURE(!mp_pool_failed(pool), x->err, MP_NOMEM, "out of memory for a plan of %zu steps", most);
    for (int t = 0; t < x->n; t++) {
        const mp_alternative *a = &x->graph->nodes[x->steps[t].node].alternatives[x->steps[t].alternative];
        state_swap *u = &x->updates[x->n_updates];
        x->clock[t] = clock;
        clock += a->channel <= MP_CHANNEL_SECOND_STREAM ? a->ticks : 0;
        *u = (state_swap){.at = t, .first = t, .last = t + 1};
        u->in_ticks = sum_of(x, x->all, mp_state_copies_of(x->graph, x->steps[t].node, true, x->all), &u->bytes);
        u->out_ticks = sum_of(x, x->all, mp_state_copies_of(x->graph, x->steps[t].node, false, x->all), NULL);
        x->n_updates += u->bytes > 0;
    }
    x->clock[x->n] = clock;
    return MP_OK;
}

static void take_room(placing *x, int from, int to, int64_t bytes)
{
    for (int t = from; t < to; t++) x->room[t] -= bytes;
}

/* A limit on the distance between copies and their update. With `anywhere`, copies to the device may begin even earlier. */
typedef struct distance {
    /* the limit, in updates between a copy and its update; 0: the copies are directly before and after their update */
    int updates;
    bool anywhere;
} distance;

/* Moves the copies of one update after the other. A copy to the device is moved to the step at which it must begin so that it
 * ends in time, as far as memory permits. The wait for a copy back is moved to the step at which the copy has ended, or to an
 * earlier step that needs its memory. */
static mp_status move_apart(placing *x, int64_t budget_bytes, distance most)
{
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    /* per update: the latest time in ticks at which its copies to the device may begin */
    MP_OWNED int64_t *start = mp_alloc((size_t)x->n_updates + 1, sizeof *start);
    int64_t out_free = 0;
    int first = 0;
    MP_ENSURE(start, x->err, MP_NOMEM, "out of memory for %d updates", x->n_updates);
    MP_CHECK(mp_timeline_build(x->without_state, x->steps, (size_t)x->n, &timeline, x->err));
    for (int t = 0; t < x->n; t++) x->room[t] = budget_bytes - timeline->static_bytes - timeline->live_bytes[t];
    start[x->n_updates] = INT64_MAX;
    for (int k = x->n_updates - 1; k >= 0; k--) {
        const int64_t due = x->clock[x->updates[k].at];
        start[k] = (due < start[k + 1] ? due : start[k + 1]) - x->updates[k].in_ticks;
    }
    for (int k = 0; k < x->n_updates; k++) {
        state_swap *u = &x->updates[k];
        if (!most.anywhere) first = (int)mp_larger(first, x->updates[k > most.updates ? k - most.updates : 0].at);
        while (u->first > first && x->room[u->first - 1] >= u->bytes && x->clock[u->first] > start[k]) u->first--;
        first = u->first;
        take_room(x, u->first, u->at, u->bytes);
        out_free = mp_larger(out_free, x->clock[u->at + 1]) + u->out_ticks;
        const int latest = most.updates < x->n_updates - k ? u[most.updates].at : x->n;
        while (u->last < latest && x->room[u->last] >= u->bytes && x->clock[u->last] < out_free) u->last++;
        take_room(x, u->at + 1, u->last, u->bytes);
    }
    return MP_OK;
}

static void append_copies(placing *x, state_swap *u, bool is_in)
{
    const int n = (int)mp_state_copies_of(x->graph, x->steps[u->at].node, is_in, &x->all[x->n_all]);
    for (int k = 0; k < n; k++) x->copies[x->n_all++] = u;
}

static void issue_copy(const placing *x, int t, int until)
{
    mp_steps_issue(x->all, t, t + 1, until > t + 1 ? until : 0);
}

/* Writes the steps of the plan with copies to x->all. */
static void write_all(placing *x)
{
    state_swap *next_in = x->updates, *next = x->updates, *end = x->updates + x->n_updates;
    for (int t = 0; t < x->n; t++) {
        x->from[t] = x->n_all;
        while (next_in < end && next_in->first == t) append_copies(x, next_in++, true);
        x->at[t] = x->n_all;
        x->all[x->n_all++] = x->steps[t];
        if (next < end && next->at == t) append_copies(x, next++, false);
    }
    x->from[x->n] = x->at[x->n] = x->n_all;
    /* an issued step stays issued. It may read a storage that an earlier issued step of its channel still writes, and a step
     * that runs in order must not */
    for (int t = 0; t < x->n; t++)
        if (mp_step_is_issued(x->steps[t])) mp_steps_issue(x->all, x->at[t], x->at[t] + 1, x->from[mp_step_end(x->steps, t)]);
    for (int t = 0; t < x->n_all; t++) {
        const state_swap *u = x->copies[t];
        const bool is_in = u && mp_copy_way_of(x->graph, x->all[t].node, 0) == MP_COPY_IN;
        if (u) issue_copy(x, t, is_in ? x->at[u->at] : x->from[u->last]);
    }
}

/* Adds the copies of state to the steps of a plan without state copies. Each copy is directly before or after its update, or as
 * far away as the budget permits. If the plan without state copies fits the budget, the result fits too. The pool owns the
 * result, which is in *x. */
static mp_status place_copies(placing *x, distance most, int64_t budget_bytes, mp_pool *pool)
{
    MP_ENSURE(pool, x->err, MP_NOMEM, "out of memory for a plan of %d steps", x->n);
    MP_CHECK(list_updates(x, pool));
    if (most.updates) MP_CHECK(move_apart(x, budget_bytes, most));
    write_all(x);
    return MP_OK;
}

/* Builds several plans with copies from the steps of one plan without state copies. Keeps the best of these plans and *best
 * (may be NULL). */
static mp_status take_better(const mp_request *request, const mp_graph *without_state, const char *solver, const mp_step *steps,
                             size_t n, mp_plan **best, mp_error *err)
{
    bool goes_on = true;
    for (int k = 0; goes_on; k++) {
        MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
        MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
        placing x = {.graph = request->graph, .without_state = without_state, .steps = steps, .n = (int)n, .err = err};
        MP_CHECK(place_copies(&x, (distance){1 << k / 2, k % 2}, request->budget_bytes, pool));
        MP_CHECK(mp_plan_new(request->graph, solver, x.all, (size_t)x.n_all, &plan, err));
        goes_on = !(k % 2) || 1 << k / 2 < x.n_updates;
        const bool is_better =
            plan->peak_bytes <= request->budget_bytes && *best &&
            (plan->ticks < (*best)->ticks || (plan->ticks == (*best)->ticks && plan->peak_bytes < (*best)->peak_bytes));
        if (*best && !is_better) continue;
        mp_plan_free(*best);
        *best = plan;
        plan = NULL;
    }
    return MP_OK;
}

static bool is_update(const mp_graph *graph, int node)
{
    return graph->nodes[node].phase == MP_PHASE_UPDATE;
}

/* Copies the steps of a plan, without the steps of the nodes for which is_out is true. Release *out with mp_free. */
static mp_status leave_out(const mp_graph *graph, const mp_plan *plan, bool (*is_out)(const mp_graph *graph, int node),
                           mp_step **out, size_t *n, mp_error *err)
{
    MP_OWNED mp_step *steps = mp_alloc(plan->n_steps, sizeof *steps);
    MP_OWNED int *at = mp_alloc(plan->n_steps + 1, sizeof *at);
    MP_ENSURE(steps && at, err, MP_NOMEM, "out of memory for a plan of %zu steps", plan->n_steps);
    if (plan->n_steps) memcpy(steps, plan->steps, plan->n_steps * sizeof *steps);
    *n = mp_steps_leave_out(graph, steps, plan->n_steps, is_out, at);
    *out = steps;
    steps = NULL;
    return MP_OK;
}

mp_status mp_state_plan(const mp_request *request, const mp_graph *without_state, const mp_plan *plan, mp_plan **out,
                        mp_error *err)
{
    size_t n, n_others;
    MP_OWNED_BY(mp_plan_free) mp_plan *best = NULL;
    MP_OWNED mp_step *others = NULL, *early = NULL, *late = NULL;
    MP_CHECK(take_better(request, without_state, plan->solver, plan->steps, plan->n_steps, &best, err));
    if (!mp_update_order_of(without_state).keeps_inputs) {
        MP_CHECK(leave_out(without_state, plan, is_update, &others, &n_others, err));
        MP_CHECK(mp_updates_place(without_state, others, n_others, &early, &n, err));
        MP_CHECK(take_better(request, without_state, plan->solver, early, n, &best, err));
        MP_CHECK(mp_updates_place_within(without_state, others, n_others, 0, &late, &n, err));
        MP_CHECK(take_better(request, without_state, plan->solver, late, n, &best, err));
    }
    best->seed = plan->seed;
    *out = best;
    best = NULL;
    return MP_OK;
}

mp_status mp_state_check_static_bytes(const mp_request *request, mp_error *err)
{
    const mp_graph *graph = request->graph;
    for (int m = 1; m < (int)graph->n_tiers; m++)
        MP_ENSURE(!request->tier_bytes[m] || mp_graph_static_bytes_in(graph, m) <= request->tier_bytes[m], err, MP_INVALID,
                  "the optimizer state needs %lld bytes of the tier '%.60s', which has %lld",
                  (long long)mp_graph_static_bytes_in(graph, m), graph->tiers[m], (long long)request->tier_bytes[m]);
    return MP_OK;
}

int64_t mp_ticks_of_all(const mp_graph *graph)
{
    int64_t ticks = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const mp_node *node = &graph->nodes[i];
        if (node->alternatives->channel <= MP_CHANNEL_SECOND_STREAM && !(node->flags & MP_NODE_OPTIONAL))
            ticks += node->alternatives->ticks;
    }
    return ticks;
}

/* Returns the part of the bound `ticks` that precedes the updates after backward in every plan. If the graph
 * has collectives, only compute counts, because the collectives in `ticks` may overlap with the first updates. */
static int64_t ticks_before_updates(const mp_graph *graph, int64_t ticks, int64_t updates)
{
    int64_t compute = 0;
    bool sends = false;
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        const bool is_compute = node->alternatives->channel <= MP_CHANNEL_SECOND_STREAM;
        int64_t least = INT64_MAX;
        sends |= !is_compute && mp_copy_way_of(graph, (int)v, 0) == MP_COPY_NONE;
        if (!is_compute || node->phase == MP_PHASE_UPDATE || (node->flags & MP_NODE_OPTIONAL)) continue;
        for (size_t k = 0; k < node->n_alternatives; k++)
            if (node->alternatives[k].channel <= MP_CHANNEL_SECOND_STREAM && node->alternatives[k].ticks < least)
                least = node->alternatives[k].ticks;
        compute += least;
    }
    return sends ? compute : ticks - updates;
}

int64_t mp_state_bound(const mp_graph *graph, int64_t ticks)
{
    int64_t of_channel[MP_MAX_CHANNELS][2] = {{0}}, least[2] = {INT64_MAX, INT64_MAX}, updates = 0; /* in, out */
    for (size_t v = 0; v < graph->n_nodes; v++) {
        const mp_node *node = &graph->nodes[v];
        const mp_alternative *base = &node->alternatives[0];
        int64_t slowest = 0;
        if (node->phase != MP_PHASE_UPDATE) continue;
        for (size_t k = 0; k < node->n_alternatives; k++) slowest = mp_larger(slowest, node->alternatives[k].ticks);
        if (!mp_node_copies_state(graph, (int)v)) {
            updates += slowest;
            continue;
        }
        const int out = mp_copy_way_of(graph, (int)v, 0) == MP_COPY_OUT;
        of_channel[base->channel][out] += base->ticks;
        if (base->ticks < least[out]) least[out] = base->ticks;
    }
    const int64_t before = mp_update_order_of(graph).after_backward ? ticks_before_updates(graph, ticks, updates) : 0;
    for (int c = 0; c < MP_MAX_CHANNELS; c++) {
        const int64_t in = of_channel[c][0], out = of_channel[c][1];
        ticks = mp_larger(ticks, in && out ? in + out : in ? in + least[1] : out ? out + least[0] : 0);
        if (out) ticks = mp_larger(ticks, before + out);
    }
    return ticks;
}

mp_status mp_state_hear(const mp_step *steps, size_t n, int64_t peak_bytes, int64_t ticks, void *data, mp_error *err)
{
    enum { STEPS = 4 };
    const mp_state_listener *l = data;
    const mp_request *request = l->request;
    int64_t state_bytes = 0;
    (void)ticks; /* ticks of the plan without state copies */
    for (int m = 1; m < (int)request->graph->n_tiers; m++) state_bytes += mp_graph_static_bytes_in(request->graph, m);
    for (int k = 0; k <= STEPS; k++) {
        MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
        MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
        placing x = {.graph = request->graph, .without_state = l->without_state, .steps = steps, .n = (int)n, .err = err};
        MP_CHECK(place_copies(&x, (distance){1 << k, true}, peak_bytes + state_bytes / STEPS * k, pool));
        MP_CHECK(mp_timeline_build(request->graph, x.all, (size_t)x.n_all, &timeline, err));
        MP_CHECK(request->on_offer(x.all, (size_t)x.n_all, timeline->peak_bytes, timeline->ticks, request->on_offer_data, err));
    }
    return MP_OK;
}

mp_status mp_state_in_order(const mp_graph *graph, const mp_plan *plan, mp_plan **out, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    placing x = {.graph = graph, .steps = plan->steps, .n = (int)plan->n_steps, .err = err};
    MP_CHECK(place_copies(&x, (distance){0}, 0, pool));
    MP_CHECK(mp_plan_new(graph, plan->solver, x.all, (size_t)x.n_all, out, err));
    (*out)->seed = plan->seed;
    return MP_OK;
}

mp_status mp_state_remove_copies(const mp_graph *graph, const mp_graph *without_state, const mp_plan *plan, mp_plan **out,
                                 mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    size_t n;
    MP_CHECK(leave_out(graph, plan, mp_node_copies_state, &steps, &n, err));
    return mp_plan_new(without_state, plan->solver, steps, n, out, err);
}
