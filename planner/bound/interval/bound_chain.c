/* bound_chain.c - chooses the nodes at which intervals may begin and end, and finds the chain of disjoint intervals with the
 * largest sum of bounds (a longest path). */
#include "planner/bound/interval/bound_chain.h"

#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_CANDIDATES = 2048, /* most nodes examined as boundaries of intervals */
    BOUND_POINTS = 16,       /* boundaries in a series of intervals, times effort; cuts grow with the square */
};

bool mp_bound_chain_ended(mp_bound_chain *c)
{
    if (!c->stopped && c->options.stop) c->stopped = c->options.stop(c->options.data);
    return c->infeasible || c->stopped;
}

int mp_bound_chain_node(const mp_bound_chain *c, int point)
{
    return c->candidates[c->point[point]].node;
}

static void find_candidates(mp_bound_chain *c)
{
    const mp_precedence *o = c->order;
    mp_bound_interval *x = c->interval;
    const int most = c->options.effort > 0 ? BOUND_CANDIDATES : MP_BOUND_FEW_CANDIDATES;
    const int stride = o->only_vertex >= 0 ? 1 : (o->n + most - 1) / most;
    for (int k = 0; k < o->n && !mp_bound_chain_ended(c); k += stride) {
        const int v = o->sequence[k];
        if (v == o->n - 1 || (o->only_vertex >= 0 && v != o->only_vertex)) continue;
        if (x->default_end >= 0 && !mp_precedes(o, v, x->default_end)) continue;
        mp_bound_interval_start(x, v);
        mp_bound_interval_end(x, -1);
        c->infeasible = x->free_bytes < 0;
        const int64_t shortage = mp_bound_interval_live_in(x) - x->free_bytes;
        if (shortage > 0) c->candidates[c->n_candidates++] = (mp_bound_candidate){v, shortage, x->free_bytes};
    }
}

/* Chooses the first points (possible boundaries): divides the list of candidate nodes into equal ranges, and takes from each
 * range the candidate with the largest shortage of memory. */
static void spread_points(mp_bound_chain *c)
{
    for (int p = 0; p < c->most; p++) {
        const int from = (int)((int64_t)c->n_candidates * p / c->most);
        const int to = (int)((int64_t)c->n_candidates * (p + 1) / c->most);
        int best = from;
        for (int k = from + 1; k < to; k++)
            if (c->candidates[k].shortage_bytes > c->candidates[best].shortage_bytes) best = k;
        if (from < to) c->point[c->n++] = best;
    }
}

/* Chooses the points (possible boundaries) of the next round. These are the points of the best chain, whose first point is
 * `best`, and near each of them further candidate nodes. Neighbouring candidates are `step` list positions apart. */
static void gather_points(mp_bound_chain *c, int best, int step, bool *chosen)
{
    int n_chain = 0;
    for (int i = best; i >= 0; i = c->next[i]) n_chain++;
    const int beside = (c->most / n_chain - 1) / 2;
    for (int k = 0; k < c->n_candidates; k++) chosen[k] = false;
    for (int i = best; i >= 0; i = c->next[i])
        for (int k = -beside; k <= beside; k++) {
            const int64_t at = c->point[i] + (int64_t)k * step;
            if (at >= 0 && at < c->n_candidates) chosen[at] = true;
        }
    c->n = 0;
    for (int k = 0; k < c->n_candidates; k++)
        if (chosen[k]) c->point[c->n++] = k;
}

/* Returns the bound in ticks of the interval from point i to point j (j = -1: to the end of the step). */
static int64_t ticks_between(mp_bound_chain *c, int i, int j)
{
    mp_bound_interval_start(c->interval, mp_bound_chain_node(c, i));
    mp_bound_interval_end(c->interval, j < 0 ? -1 : mp_bound_chain_node(c, j));
    const mp_bound_value value = mp_bound_interval_solve(c->interval);
    c->infeasible = c->infeasible || value.infeasible;
    return value.infeasible ? 0 : value.ticks;
}

/* Returns the bound of the interval from point i to the end of the step. Records it if it is the largest so far. */
static int64_t ticks_to_end(mp_bound_chain *c, int i)
{
    const int64_t before = c->interval->work.n_cuts, ticks = ticks_between(c, i, -1);
    c->work.n_cuts += c->interval->work.n_cuts - before;
    if (ticks > c->best_ticks) {
        c->best_ticks = ticks;
        c->best_single = mp_bound_chain_node(c, i);
    }
    return ticks;
}

/* Finds, for every point, the best chain of intervals that begins at this point. If two intervals begin at the same point, the
 * shorter one has at most the bound of the longer one. So most minimum cuts need not be computed. */
static void find_chains(mp_bound_chain *c)
{
    const bool chains = mp_bound_is_on(&c->options, MP_BOUND_DISJOINT);
    for (int i = c->n - 1; i >= 0; i--) {
        if (mp_bound_chain_ended(c)) {
            c->rest[i] = 0;
            c->next[i] = -1;
            continue;
        }
        /* the end point of the interval whose bound was computed last; -1: none yet. Intervals are visited from the longest to
         * the shortest */
        int longer = -1;
        c->rest[i] = c->single[i] = ticks_to_end(c, i);
        c->next[i] = -1;
        int64_t most = c->single[i];
        for (int j = chains ? c->n - 1 : i; j > i && !mp_bound_chain_ended(c); j--) {
            if (!mp_precedes(c->order, mp_bound_chain_node(c, i), mp_bound_chain_node(c, j))) continue;
            const bool within = longer < 0 || mp_precedes(c->order, mp_bound_chain_node(c, j), mp_bound_chain_node(c, longer));
            if ((within ? most : c->single[i]) + c->rest[j] <= c->rest[i]) continue;
            const int64_t ticks = ticks_between(c, i, j);
            longer = j;
            most = ticks;
            if (ticks + c->rest[j] <= c->rest[i]) continue;
            c->rest[i] = ticks + c->rest[j];
            c->next[i] = j;
        }
    }
}

/* Returns the point at which the best chain begins. Of equally good chains, the shorter one is chosen. */
static int best_start(const mp_bound_chain *c)
{
    int best = -1;
    for (int i = 0; i < c->n; i++)
        if (best < 0 || c->rest[i] >= c->rest[best]) best = i;
    return best;
}

/* Searches for the chain of intervals with the largest bound. The first points are spread evenly over the step. In each later
 * round the points are closer to the best chain so far. */
static mp_status search_chains(mp_bound_chain *c, mp_error *err)
{
    MP_OWNED bool *chosen = mp_alloc((size_t)c->n_candidates, sizeof *chosen);
    MP_ENSURE(chosen, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    spread_points(c);
    find_chains(c);
    for (int step = c->n_candidates / c->most; c->options.effort > 0 && step > 0; step /= 2) {
        c->first = best_start(c);
        if (c->first < 0 || mp_bound_chain_ended(c)) break;
        gather_points(c, c->first, step, chosen);
        find_chains(c);
    }
    c->first = best_start(c);
    return MP_OK;
}

mp_status mp_bound_chain_new(const mp_precedence *order, int64_t budget_bytes, const mp_bound_options *options, int until,
                             mp_bound_chain **out, mp_error *err)
{
    MP_OWNED_BY(mp_bound_chain_free) mp_bound_chain *c = mp_alloc(1, sizeof *c);
    MP_ENSURE(c, err, MP_NOMEM, "no memory for a bound of %d nodes", order->n);
    c->order = order;
    c->pool = mp_pool_new();
    c->options = *options;
    c->best_single = -1;
    c->most = options->effort > 0 ? BOUND_POINTS * options->effort : 1;
    MP_CHECK(mp_bound_interval_new(order, budget_bytes, &c->interval, err));
    MP_CHECK(mp_bound_interval_add_undecided(c->interval, err));
    c->interval->default_end = until;
    c->candidates = mp_pool_alloc(c->pool, BOUND_CANDIDATES, sizeof *c->candidates);
    c->point = mp_pool_alloc(c->pool, (size_t)c->most, sizeof *c->point);
    c->single = mp_pool_alloc(c->pool, (size_t)c->most, sizeof *c->single);
    c->rest = mp_pool_alloc(c->pool, (size_t)c->most, sizeof *c->rest);
    c->next = mp_pool_alloc(c->pool, (size_t)c->most, sizeof *c->next);
    MP_ENSURE(!mp_pool_failed(c->pool), err, MP_NOMEM, "no memory for a bound of %d nodes", order->n);
    find_candidates(c);
    MP_CHECK(search_chains(c, err));
    *out = c;
    c = NULL;
    return MP_OK;
}

void mp_bound_chain_free(mp_bound_chain *c)
{
    if (!c) return;
    mp_bound_interval_free(c->interval);
    mp_pool_free(c->pool);
    mp_free(c);
}
