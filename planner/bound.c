/* bound.c - between which nodes intervals are looked at, and which of them add up to the most.
 *
 * Runs in intervals that share no step are different runs. So the ticks of intervals (i, j], (j, k], ... add up, wherever i is
 * before j, j before k, and so on; the best such chain is found from its end. Points are where the most would have to be made
 * again: those at which what is read later goes over the room by the most, one of each stretch of the order.
 */
#include "planner/bound.h"

#include <string.h>

#include "planner/bound_branch.h"
#include "planner/bound_couple.h"
#include "planner/bound_interval.h"
#include "planner/bound_overlap.h"
#include "planner/floor.h"

enum {
    MOST_CANDIDATES = 2048,
    FEW_CANDIDATES = 128,
    POINTS = 16,
    BRANCHINGS = 64,
    ROUNDS = 32,
    FEW_ROUNDS = 6,
    TRIALS = 4,
    MOST_SPLITS = 4,
    ROWS = 2500, /* of a linear programme */
    BOUNDARIES = 6,
    PROGRAMMES = 2,
    TOGETHER = 3, /* such programmes */
    SELECTIONS = 1,
    SPARSE = 2, /* intervals that nest or follow each other make a programme this much easier */
    LEAST_WORTH = 64,
    MOST_EFFORT = 8,
    NEXT_STAGE = 4
};

/* A node after which memory is short: what is read later goes over the room by so much. */
struct candidate {
    int node;
    int64_t shortage_bytes, room_bytes;
};

typedef struct chain {
    const mp_bound_order *order;
    const mp_bound_options *options;
    mp_bound_interval *interval;
    int n_candidates; /* in an order that obeys "before" */
    struct candidate *candidates;
    int n, most, *point; /* the points among them, ascending */
    int64_t *single;     /* per point: the interval from there to the end */
    int64_t *rest;       /* per point: the best chain that begins there */
    int *next;           /* ... and its next point, -1: none */
    bool infeasible, stopped;
} chain;

static bool stopped(chain *c)
{
    if (!c->stopped && c->options->stop) c->stopped = c->options->stop(c->options->data);
    return c->stopped;
}

static int node_of(const chain *c, int i)
{
    return c->candidates[c->point[i]].node;
}

static void find_candidates(chain *c)
{
    const mp_bound_order *o = c->order;
    mp_bound_interval *x = c->interval;
    const int most = c->options->effort > 0 ? MOST_CANDIDATES : FEW_CANDIDATES;
    const int stride = o->only >= 0 ? 1 : (o->n + most - 1) / most;
    for (int k = 0; k < o->n && !c->infeasible && !stopped(c); k += stride) {
        const int v = o->sequence[k];
        if (v == o->n - 1 || (o->only >= 0 && v != o->only)) continue;
        mp_bound_interval_start(x, v);
        mp_bound_interval_end(x, -1);
        c->infeasible = x->room_bytes < 0;
        const int64_t shortage = mp_bound_interval_demand(x) - x->room_bytes;
        if (shortage > 0) c->candidates[c->n_candidates++] = (struct candidate){v, shortage, x->room_bytes};
    }
}

/* The first points: of every stretch of candidates the one with the largest shortage. */
static void spread_points(chain *c)
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

/* The next points: those of the best chain, which begins at `best`, and candidates on both sides of each, `step` apart. */
static void gather_points(chain *c, int best, int step, bool *chosen)
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

/* The ticks of the interval between two points (j = -1: to the end). */
static int64_t ticks_between(chain *c, int i, int j)
{
    mp_bound_interval_start(c->interval, node_of(c, i));
    mp_bound_interval_end(c->interval, j < 0 ? -1 : node_of(c, j));
    const mp_bound_value value = mp_bound_interval_solve(c->interval);
    c->infeasible = c->infeasible || value.infeasible;
    return value.infeasible ? 0 : value.ticks;
}

/* The best chain from every point on. An interval takes no more than a longer one from its start, which saves most cuts. */
static void find_chains(chain *c)
{
    for (int i = c->n - 1; i >= 0; i--) {
        if (c->infeasible || stopped(c)) {
            c->rest[i] = 0;
            c->next[i] = -1;
            continue;
        }
        int longer = -1; /* the end of the last interval looked at */
        c->rest[i] = c->single[i] = ticks_between(c, i, -1);
        c->next[i] = -1;
        int64_t most = c->single[i];
        for (int j = c->n - 1; j > i && !c->infeasible && !stopped(c); j--) {
            if (!mp_bound_before(c->order, node_of(c, i), node_of(c, j))) continue;
            const bool within = longer < 0 || mp_bound_before(c->order, node_of(c, j), node_of(c, longer));
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

/* Where the best chain begins; the shorter one of two that are as good. */
static int best_start(const chain *c)
{
    int best = -1;
    for (int i = 0; i < c->n; i++)
        if (best < 0 || c->rest[i] >= c->rest[best]) best = i;
    return best;
}

/* Chains between points that are spread at first, and then lie closer and closer around the best chain so far. */
static mp_status search_chains(chain *c, mp_error *err)
{
    mp_status st = MP_OK;
    bool *chosen = mp_alloc((size_t)c->n_candidates, sizeof *chosen);
    MP_REQUIRE(chosen, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    spread_points(c);
    find_chains(c);
    for (int step = c->n_candidates / c->most; c->options->effort > 0 && step > 0; step /= 2) {
        const int best = best_start(c);
        if (best < 0 || c->infeasible || stopped(c)) break;
        gather_points(c, best, step, chosen);
        find_chains(c);
    }
done:
    mp_free(chosen);
    return st;
}

/* The bound of coupled intervals between these nodes. */
static mp_status couple(chain *c, const int *nodes, int n, int rounds, int64_t *ticks, mp_error *err)
{
    mp_status st = mp_bound_couple(c->interval, nodes, n, (int64_t)rounds * c->options->effort, c->options, ticks, err);
    if (st != MP_INFEASIBLE) return st;
    c->infeasible = true;
    return MP_OK;
}

/* Puts a node into a list where it belongs; false: it is in it, or can come on either side of one of its nodes. */
static bool insert(const chain *c, int *nodes, int n, int node)
{
    int at = n;
    for (int i = 0; i < n; i++) {
        const bool before = mp_bound_before(c->order, node, nodes[i]);
        if (!before && !mp_bound_before(c->order, nodes[i], node)) return false;
        if (before && at == n) at = i;
    }
    for (int i = n; i > at; i--) nodes[i] = nodes[i - 1];
    nodes[at] = node;
    return true;
}

/* Splits intervals further, one node at a time, each the best of some, as long as that helps once they are coupled. */
static mp_status split(chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    const int n_tried = TRIALS * c->options->effort;
    int *best = mp_alloc(2 * ((size_t)*n + MOST_SPLITS), sizeof *best);
    MP_REQUIRE(best, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    int *trial = best + *n + MOST_SPLITS;
    for (int k = 0; k < MOST_SPLITS; k++) {
        int64_t most = *ticks;
        for (int i = 0; i < n_tried && !c->infeasible && !stopped(c); i++) {
            int64_t found = 0;
            const int candidate = (int)((int64_t)c->n_candidates * (2 * i + 1) / (2 * n_tried));
            memcpy(trial, nodes, (size_t)*n * sizeof *trial);
            if (!insert(c, trial, *n, c->candidates[candidate].node)) continue;
            MP_TRY(couple(c, trial, *n + 1, FEW_ROUNDS, &found, err));
            if (found <= most) continue;
            most = found;
            memcpy(best, trial, (size_t)(*n + 1) * sizeof *best);
        }
        if (most <= *ticks || c->infeasible) break;
        *ticks = most;
        memcpy(nodes, best, (size_t)++ * n * sizeof *nodes);
    }
done:
    mp_free(best);
    return st;
}

/* The k-th place of a sequence that fills 0 .. n - 1 ever more evenly (van der Corput). */
static int spread_place(int k, int n)
{
    int64_t place = 0, whole = 1;
    for (; k > 0; k /= 2, whole *= 2) place = 2 * place + k % 2;
    return (int)(place * n / whole);
}

/* More boundaries beside those there are, up to `most`: of some candidates around each next place after the first of them the
 * one that leaves the least room, if it was not tried before. */
static int add_boundaries(const chain *c, int *nodes, int n, int most, int *place, bool *tried)
{
    int first = 0;
    while (first < c->n_candidates && c->candidates[first].node != nodes[0]) first++;
    const int n_left = c->n_candidates - first, beside = n_left / (2 * most) + 1, last = *place + 4 * most;
    for (; *place < last && n < most; ++*place) {
        const int middle = first + spread_place(*place, n_left);
        int best = -1;
        for (int k = middle - beside; k <= middle + beside; k++) {
            if (k <= first || k >= c->n_candidates || tried[k]) continue;
            if (best < 0 || c->candidates[k].room_bytes <= c->candidates[best].room_bytes) best = k;
        }
        if (best < 0) continue;
        tried[best] = true;
        if (insert(c, nodes, n, c->candidates[best].node)) n++;
    }
    return n;
}

/* Leaves the boundaries at which memory counts, and the first. */
static int drop_worthless(int *nodes, int n, const int64_t *worth)
{
    int64_t sum = 0;
    int n_left = 0;
    for (int i = 0; i < n; i++) sum += worth[i] / n;
    for (int i = 0; i < n; i++)
        if (!i || worth[i] > sum / LEAST_WORTH) nodes[n_left++] = nodes[i];
    return n_left;
}

/* The bound of overlapping intervals between the nodes of a chain, and others: those that turn out to matter are kept. */
static mp_status overlap(chain *c, const int *chain_nodes, int n_chain, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    const int effort = c->options->effort;
    const int64_t rows = (int64_t)ROWS * (effort < MOST_EFFORT ? effort : MOST_EFFORT);
    const int64_t per_pair = 1 + mp_bound_overlap_rows(c->order);
    int64_t most = (SPARSE * rows / per_pair + 1) / 2, selected = 0, left = TOGETHER * rows;
    int n = n_chain, n_best = n_chain, place = 0;
    if (most < n_chain) return MP_OK;
    if (most > BOUNDARIES + effort) most = BOUNDARIES + effort;
    if (most < n_chain) most = n_chain;
    int *nodes = mp_alloc(2 * (size_t)most, sizeof *nodes), *best = nodes ? nodes + most : NULL;
    bool *tried = mp_alloc((size_t)c->n_candidates, sizeof *tried);
    int64_t *worth = mp_alloc((size_t)most, sizeof *worth);
    MP_REQUIRE(nodes && tried && worth, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    memcpy(best, chain_nodes, (size_t)n_chain * sizeof *nodes);
    for (int k = 0; k <= SELECTIONS + effort && !stopped(c) && !c->infeasible; k++) {
        int64_t found = 0;
        const bool last = k == SELECTIONS + effort;
        memcpy(nodes, best, (size_t)n_best * sizeof *nodes);
        n = last ? n_best : add_boundaries(c, nodes, n_best, (int)most, &place, tried);
        if (!last && k && (n == n_best || left < 0)) continue;
        if (last && (2 * n - 1) * per_pair >= rows) break; /* no room for more intervals */
        left -= (2 * n - 1) * per_pair;
        st = mp_bound_overlap_within(c->interval, nodes, n, rows, last ? PROGRAMMES : 1, c->options, &found, worth, err);
        c->infeasible = st == MP_INFEASIBLE;
        if (c->infeasible) st = MP_OK;
        if (st != MP_OK) goto done;
        /* a large programme that gives less than the chains do will not do better with other boundaries */
        if (found / 7 < *ticks / 8 && 2 * (2 * n - 1) * per_pair > rows) break;
        if (found > *ticks) *ticks = found;
        if (found < selected) continue;
        selected = found;
        n_best = drop_worthless(nodes, n, worth);
        memcpy(best, nodes, (size_t)n_best * sizeof *nodes);
    }
done:
    mp_free(nodes);
    mp_free(tried);
    mp_free(worth);
    return st;
}

/* The ticks of the best chain, each of its intervals searched on its own; or of its intervals coupled, if that is more. */
static mp_status add_up(chain *c, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    const int best = best_start(c), effort = c->options->effort;
    int *nodes = NULL, n = 0;
    int64_t coupled = 0, finally = 0, overlapping = 0;
    *ticks = 0;
    if (best < 0 || c->infeasible) return MP_OK;
    *ticks = c->rest[best];
    if (stopped(c) || effort <= 0) return MP_OK;
    nodes = mp_alloc((size_t)c->n + MOST_SPLITS, sizeof *nodes);
    MP_REQUIRE(nodes, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    *ticks = 0;
    for (int i = best; i >= 0; i = c->next[i]) {
        mp_bound_value value;
        nodes[n++] = node_of(c, i);
        mp_bound_interval_start(c->interval, node_of(c, i));
        mp_bound_interval_end(c->interval, c->next[i] < 0 ? -1 : node_of(c, c->next[i]));
        MP_TRY(mp_bound_branch(c->interval, (int64_t)BRANCHINGS * effort, c->options, &value, err));
        c->infeasible = c->infeasible || value.infeasible;
        *ticks += value.ticks;
    }
    coupled = c->rest[best];
    if (!c->infeasible && !stopped(c)) MP_TRY(split(c, nodes, &n, &coupled, err));
    if (!c->infeasible && !stopped(c) && n > 1) MP_TRY(couple(c, nodes, n, ROUNDS, &finally, err));
    if (finally > coupled) coupled = finally;
    if (coupled > *ticks) *ticks = coupled;
    if (!c->infeasible && !stopped(c)) MP_TRY(overlap(c, nodes, n, &overlapping, err));
    if (overlapping > *ticks) *ticks = overlapping;
done:
    mp_free(nodes);
    return st;
}

/* One stage: all that an effort of so much is worth. */
static mp_status bound_stage(const mp_bound_order *order, int64_t budget_bytes, int effort, const mp_bound_options *options,
                             int64_t *ticks, bool *infeasible, mp_error *err)
{
    mp_status st = MP_OK;
    mp_bound_options own = *options;
    chain stage = {.order = order, .options = &own, .most = effort > 0 ? POINTS * effort : 1}, *c = &stage;
    own.effort = effort;
    MP_TRY(mp_bound_interval_new(order, budget_bytes, &c->interval, err));
    c->candidates = mp_alloc(MOST_CANDIDATES, sizeof *c->candidates);
    c->point = mp_alloc((size_t)c->most, sizeof *c->point);
    c->single = mp_alloc((size_t)c->most, sizeof *c->single);
    c->rest = mp_alloc((size_t)c->most, sizeof *c->rest);
    c->next = mp_alloc((size_t)c->most, sizeof *c->next);
    MP_REQUIRE(c->candidates && c->point && c->single && c->rest && c->next, err, MP_NOMEM, "no memory for a bound of %d nodes",
               c->order->n);
    find_candidates(c);
    MP_TRY(search_chains(c, err));
    MP_TRY(add_up(c, ticks, err));
    *infeasible = c->infeasible;
done:
    mp_bound_interval_free(c->interval);
    mp_free(c->candidates);
    mp_free(c->point);
    mp_free(c->single);
    mp_free(c->rest);
    mp_free(c->next);
    return st;
}

/* The best of the stages up to the effort, so that more effort never gives less. */
static mp_status bound_order(const mp_bound_order *order, int64_t budget_bytes, const mp_bound_options *options, int64_t *ticks,
                             bool *infeasible, mp_error *err)
{
    mp_status st = MP_OK;
    const int most = order->only >= 0 ? 0 : options->effort;
    for (int stage = most > 0; stage <= most && !*infeasible; stage *= NEXT_STAGE) {
        int64_t found = 0;
        MP_TRY(bound_stage(order, budget_bytes, stage, options, &found, infeasible, err));
        if (found > *ticks) *ticks = found;
        if (!stage || stage > most / NEXT_STAGE) break;
    }
done:
    return st;
}

mp_status mp_bound_within(const mp_graph *graph, int64_t budget_bytes, const mp_bound_options *options, mp_bound *out,
                          mp_error *err)
{
    mp_status st = MP_OK;
    const mp_bound_options defaults = {.effort = 4};
    if (!options) options = &defaults;
    mp_bound_order *order = NULL;
    int64_t floor_bytes, extra = 0;
    int floor_node;
    mp_bound bound = {.covers = options->any_order ? "any-order" : "this-order"};
    for (size_t i = 0; i < graph->n_nodes; i++) {
        int64_t least = graph->nodes[i].forms[0].ticks;
        for (size_t k = 1; k < graph->nodes[i].n_forms; k++)
            if (graph->nodes[i].forms[k].ticks < least) least = graph->nodes[i].forms[k].ticks;
        bound.ticks += least;
    }
    MP_TRY(mp_floor(graph, &floor_bytes, &floor_node, err));
    bound.infeasible = budget_bytes < floor_bytes;
    if (!bound.infeasible) {
        MP_TRY(mp_bound_order_new(graph, !options->any_order, &order, err));
        MP_TRY(bound_order(order, budget_bytes, options, &extra, &bound.infeasible, err));
        if (!bound.infeasible) bound.ticks += extra;
    }
    *out = bound;
done:
    mp_bound_order_free(order);
    return st;
}
