/* bound_settle.c - for a target time, finds pairs of nodes that can run in one order only: in the other order, every plan takes
 * at least the target. Then computes the bound of the plans that have all pairs in the possible order. */
#include "planner/bound/bound.h"

#include <string.h>

#include "planner/bound/interval/bound_interval.h"
#include "planner/math/bits.h"
#include "planner/math/tuning.h"
#include "planner/order/precedence.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_SETTLE_ROUNDS = 4,  /* most passes over all nodes per time target */
    BOUND_SETTLE_TARGETS = 8, /* most time targets */
};

/* The state while the order of pairs of nodes is fixed for one target time. */
typedef struct trial {
    const mp_bound_options *options;
    mp_precedence *order;
    mp_bound_interval *x;
    int64_t target;
    int64_t best;    /* largest bound in ticks of an interval from a node of a fixed pair to the end of the step */
    bool is_reached; /* true if every plan takes at least the target */
    int n_settled;   /* number of fixed pairs */
    uint64_t *after; /* scratch: a set of vertices */
} trial;

static bool has_ended(const trial *t)
{
    return t->is_reached || (t->options->stop && t->options->stop(t->options->data));
}

/* Returns the bound in ticks of the interval from a node to the end of the step, at most the target. If no plan fits the
 * budget, returns the target. */
static int64_t ticks_from(trial *t, int node, const uint64_t *assumed_after)
{
    t->x->assumed_after = assumed_after;
    mp_bound_interval_start(t->x, node);
    mp_bound_interval_end(t->x, -1);
    const mp_bound_value value = mp_bound_interval_solve(t->x);
    t->x->assumed_after = NULL;
    return value.infeasible || value.ticks > t->target ? t->target : value.ticks;
}

/* Fixes the order "u before v" if all plans with v before u take at least the target. */
static mp_status settle_pair(trial *t, int u, int v, mp_error *err)
{
    const mp_precedence *o = t->order;
    if (u == v || has_ended(t) || mp_precedes(o, u, v) || mp_precedes(o, v, u)) return MP_OK;
    memcpy(t->after, mp_precedence_descendants(o, u), o->words * sizeof *t->after);
    mp_bits_add(t->after, u);
    if (ticks_from(t, v, t->after) < t->target) return MP_OK;
    MP_CHECK(mp_precedence_add(t->order, u, v, err));
    t->n_settled++;
    const int64_t ticks = ticks_from(t, u, NULL);
    if (ticks > t->best) t->best = ticks;
    t->is_reached = t->best >= t->target;
    return MP_OK;
}

/* True if storage s is large, cannot be recomputed, and would be live at v if it is read after v. */
static bool is_large(const trial *t, int s)
{
    const mp_bound_interval *x = t->x;
    return !x->can_be_made[s] && x->free_bytes >= 0 && x->bytes[s] > x->free_bytes / MP_BOUND_SETTLE_LARGE;
}

static mp_status settle_at(trial *t, int v, int *large, mp_error *err)
{
    const mp_graph *graph = t->order->graph;
    int n = 0;
    mp_bound_interval_start(t->x, v);
    for (int s = 0; s < (int)graph->n_storages; s++)
        if (is_large(t, s)) large[n++] = s;
    for (int i = 0; i < n; i++) {
        const mp_certain_life life = mp_certain_life_of(t->order, large[i]);
        for (int k = 0; k < life.n_users; k++) MP_CHECK(settle_pair(t, life.users[k], v, err));
    }
    return MP_OK;
}

/* Visits all nodes repeatedly and fixes pairs, until one pass over the nodes fixes no more. Makes at most
 * BOUND_SETTLE_ROUNDS passes. */
static mp_status settle_all(trial *t, mp_error *err)
{
    const mp_graph *graph = t->order->graph;
    MP_OWNED int *large = mp_alloc(graph->n_storages, sizeof *large);
    MP_ENSURE(large, err, MP_NOMEM, "no memory for a bound of %zu nodes", graph->n_nodes);
    for (int round = 0, before = -1; round < BOUND_SETTLE_ROUNDS && t->n_settled > before; round++) {
        before = t->n_settled;
        for (int v = 0; v < (int)graph->n_nodes && !has_ended(t); v++)
            if (graph->nodes[v].phase != MP_PHASE_UPDATE) MP_CHECK(settle_at(t, v, large, err));
    }
    return MP_OK;
}

static mp_status try_target(trial *t, const mp_graph *graph, int64_t budget_bytes, mp_error *err)
{
    MP_CHECK(mp_precedence_new(graph, false, &t->order, err));
    MP_CHECK(mp_bound_interval_new(t->order, budget_bytes, &t->x, err));
    MP_CHECK(mp_bound_interval_add_undecided(t->x, err));
    t->after = mp_alloc(t->order->words, sizeof *t->after);
    MP_ENSURE(t->after, err, MP_NOMEM, "no memory for a bound of %zu nodes", graph->n_nodes);
    return settle_all(t, err);
}

static void end_trial(trial *t)
{
    mp_bound_interval_free(t->x);
    mp_precedence_free(t->order);
    mp_free(t->after);
}

mp_status mp_bound_settle(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, int64_t ticks,
                          mp_bound_settled *out, mp_error *err)
{
    mp_status st = MP_OK;
    int64_t step = ticks / MP_BOUND_SETTLE_STEP + 1;
    *out = (mp_bound_settled){.ticks = ticks};
    for (int k = 0; k < BOUND_SETTLE_TARGETS && step > 0 && st == MP_OK; k++) {
        trial t = {.options = options, .target = out->ticks + step, .best = out->ticks};
        st = try_target(&t, graph, budget_bytes, err);
        if (t.x) mp_bound_work_add(&out->work, &t.x->work);
        const bool is_better = st == MP_OK && t.best > out->ticks;
        step = is_better && t.is_reached ? 2 * step : step / 2;
        if (is_better) {
            mp_precedence_free(out->order);
            out->ticks = t.best;
            out->target = t.target;
            out->order = t.order;
            t.order = NULL;
        }
        end_trial(&t);
        if ((!k && !is_better) || (options->stop && options->stop(options->data))) break;
    }
    return st;
}

void mp_bound_settled_clear(mp_bound_settled *orders)
{
    mp_precedence_free(orders->order);
    *orders = (mp_bound_settled){0};
}
