/* bound.c - between which nodes intervals are looked at, and which of them add up to the most.
 *
 * Runs in intervals that share no step are different runs. So the ticks of intervals (i, j], (j, k], ... add up, wherever i is
 * before j, j before k, and so on; the best such chain is found from its end. Points are where the most would have to be made
 * again: those at which what is read later goes over the room by the most, one of each stretch of the order.
 */
#include "planner/bound.h"

#include "planner/bound_branch.h"
#include "planner/bound_interval.h"
#include "planner/floor.h"

enum { MOST_CANDIDATES = 2048, POINTS = 16, BRANCHINGS = 64 };

typedef struct chain {
    const mp_bound_order *order;
    const mp_bound_options *options;
    mp_bound_interval *interval;
    int n, *node;    /* the points, in an order that obeys "before" */
    int64_t *single; /* per point: the interval from there to the end */
    int64_t *rest;   /* per point: the best chain that begins there */
    int *next;       /* ... and its next point, -1: none */
    bool infeasible, stopped;
} chain;

static bool stopped(chain *c)
{
    if (!c->stopped && c->options->stop) c->stopped = c->options->stop(c->options->data);
    return c->stopped;
}

/* The points: of every stretch of the sequence the node with the largest shortage. */
static mp_status find_points(chain *c, int most, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_bound_order *o = c->order;
    mp_bound_interval *x = c->interval;
    int n = 0;
    int *nodes = mp_alloc(MOST_CANDIDATES, sizeof *nodes);
    int64_t *shortage = mp_alloc(MOST_CANDIDATES, sizeof *shortage);
    MP_REQUIRE(nodes && shortage, err, MP_NOMEM, "no memory for a bound of %d nodes", o->n);
    const int stride = (o->n + MOST_CANDIDATES - 1) / MOST_CANDIDATES;
    for (int k = 0; k < o->n && !c->infeasible && !stopped(c); k += stride) {
        const int v = o->sequence[k];
        if (v == o->n - 1) continue;
        mp_bound_interval_start(x, v);
        mp_bound_interval_end(x, -1);
        c->infeasible = x->room_bytes < 0;
        const int64_t missing = mp_bound_interval_demand(x) - x->room_bytes;
        if (missing <= 0) continue;
        nodes[n] = v;
        shortage[n++] = missing;
    }
    for (int p = 0; p < most; p++) {
        const int from = (int)((int64_t)n * p / most), to = (int)((int64_t)n * (p + 1) / most);
        if (from == to) continue;
        int best = from;
        for (int k = from + 1; k < to; k++)
            if (shortage[k] > shortage[best]) best = k;
        c->node[c->n++] = nodes[best];
    }
done:
    mp_free(nodes);
    mp_free(shortage);
    return st;
}

/* The ticks of the interval between two points (j = -1: to the end). */
static int64_t ticks_between(chain *c, int i, int j)
{
    mp_bound_interval_start(c->interval, c->node[i]);
    mp_bound_interval_end(c->interval, j < 0 ? -1 : c->node[j]);
    const mp_bound_value value = mp_bound_interval_solve(c->interval);
    c->infeasible = c->infeasible || value.infeasible;
    return value.infeasible ? 0 : value.ticks;
}

/* The best chain from every point on. An interval takes no more than the longest from its start, which saves most cuts. */
static void find_chains(chain *c)
{
    for (int i = c->n - 1; i >= 0 && !c->infeasible && !stopped(c); i--) {
        c->rest[i] = c->single[i] = ticks_between(c, i, -1);
        c->next[i] = -1;
        for (int j = i + 1; j < c->n && !c->infeasible; j++) {
            if (c->single[i] + c->rest[j] <= c->rest[i] || !mp_bound_before(c->order, c->node[i], c->node[j])) continue;
            if (stopped(c)) return;
            const int64_t ticks = ticks_between(c, i, j) + c->rest[j];
            if (ticks <= c->rest[i]) continue;
            c->rest[i] = ticks;
            c->next[i] = j;
        }
    }
}

/* The ticks of the best chain, each of its intervals searched on its own. */
static mp_status add_up(chain *c, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    int best = -1;
    const int64_t most = (int64_t)BRANCHINGS * c->options->effort;
    for (int i = 0; i < c->n; i++)
        if (best < 0 || c->rest[i] > c->rest[best]) best = i;
    *ticks = 0;
    if (best < 0 || c->infeasible) return MP_OK;
    if (stopped(c)) {
        *ticks = c->rest[best];
        return MP_OK;
    }
    for (int i = best; i >= 0; i = c->next[i]) {
        mp_bound_value value;
        mp_bound_interval_start(c->interval, c->node[i]);
        mp_bound_interval_end(c->interval, c->next[i] < 0 ? -1 : c->node[c->next[i]]);
        MP_TRY(mp_bound_branch(c->interval, most, c->options, &value, err));
        if (value.infeasible) c->infeasible = true;
        *ticks += value.ticks;
    }
done:
    return st;
}

static mp_status bound_order(chain *c, int64_t budget_bytes, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    const int most = c->options->effort > 0 ? POINTS * c->options->effort : 1;
    MP_TRY(mp_bound_interval_new(c->order, budget_bytes, &c->interval, err));
    c->node = mp_alloc((size_t)most, sizeof *c->node);
    c->single = mp_alloc((size_t)most, sizeof *c->single);
    c->rest = mp_alloc((size_t)most, sizeof *c->rest);
    c->next = mp_alloc((size_t)most, sizeof *c->next);
    MP_REQUIRE(c->node && c->single && c->rest && c->next, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    MP_TRY(find_points(c, most, err));
    find_chains(c);
    MP_TRY(add_up(c, ticks, err));
done:
    mp_bound_interval_free(c->interval);
    mp_free(c->node);
    mp_free(c->single);
    mp_free(c->rest);
    mp_free(c->next);
    return st;
}

mp_status mp_bound_within(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out,
                          mp_error *err)
{
    mp_status st = MP_OK;
    const mp_bound_options defaults = {.effort = 1};
    mp_bound_order *order = NULL;
    int64_t floor_bytes, extra = 0;
    int floor_node;
    chain c = {.options = options ? options : &defaults};
    mp_bound bound = {.covers = c.options->any_order ? "any-order" : "this-order"};
    for (size_t i = 0; i < graph->n_nodes; i++) {
        int64_t least = graph->nodes[i].forms[0].ticks;
        for (size_t k = 1; k < graph->nodes[i].n_forms; k++)
            if (graph->nodes[i].forms[k].ticks < least) least = graph->nodes[i].forms[k].ticks;
        bound.ticks += least;
    }
    MP_TRY(mp_floor(graph, &floor_bytes, &floor_node, err));
    bound.infeasible = budget_bytes < floor_bytes;
    if (!bound.infeasible && graph->n_nodes < 32768) {
        MP_TRY(mp_bound_order_new(graph, !c.options->any_order, &order, err));
        c.order = order;
        MP_TRY(bound_order(&c, budget_bytes, &extra, err));
        bound.infeasible = c.infeasible;
        if (!c.infeasible) bound.ticks += extra;
    }
    *out = bound;
done:
    mp_bound_order_free(order);
    return st;
}
