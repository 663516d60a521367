/* bound_select.c - chooses the boundaries of overlapping intervals: adds candidates, solves the linear programme, and keeps the
 * boundaries at which the solution gives free memory a value. */
#include "planner/bound/overlap/bound_select.h"

#include <string.h>

#include "planner/bound/interval/bound_couple.h"
#include "planner/bound/overlap/bound_overlap.h"
#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_SPLIT_TRIALS = 4,      /* boundaries tried when an interval is split in two, times effort */
    BOUND_SPLIT_ROUNDS = 6,      /* subgradient iterations per tried boundary, times effort */
    BOUND_COUPLE_ROUNDS = 32,    /* subgradient iterations for the best series of intervals, times effort */
    BOUND_ROWS = 2500,           /* most rows of a linear programme, times effort */
    BOUND_ROWS_EFFORT = 8,       /* largest effort that allows more rows */
    BOUND_BOUNDARIES = 8,        /* boundaries in a linear programme; one more per two units of effort */
    BOUND_SPARSE = 2,            /* intervals that are nested allow 2 times as many boundaries in a linear programme */
    BOUND_SELECTIONS = 1,        /* linear programmes that choose the boundaries, plus effort */
    BOUND_REFINEMENTS = 3,       /* linear programmes after the choice of boundaries, each with more boundaries */
    BOUND_REFINE_PROGRAMMES = 2, /* repetitions of each of the BOUND_REFINEMENTS programmes */
    BOUND_REFINE_MORE = 3,       /* boundaries that each of the BOUND_REFINEMENTS programmes adds */
    BOUND_LEAST_WORTH = 64,      /* a boundary is dropped if its multiplier is below 1/64 of the mean multiplier */
    BOUND_SMALL_ROWS = 500,      /* a linear programme with one boundary is tried up to 500 rows per interval */
    BOUND_TREE_BOUNDARIES = 4,   /* least number of boundaries in the search tree; memory peaks are added */
};

/* Computes a bound from the intervals between the nodes nodes[0..n). The intervals are coupled as in bound_couple.h. */
static mp_status couple(mp_bound_chain *c, const int *nodes, int n, int rounds, int64_t *ticks, mp_error *err)
{
    mp_status st = mp_bound_couple(c->interval, nodes, n, (int64_t)rounds * c->options.effort, &c->options, ticks, err);
    if (st != MP_INFEASIBLE) return st;
    c->infeasible = true;
    return MP_OK;
}

static bool insert(const mp_bound_chain *c, int *nodes, int n, int node)
{
    int at = n;
    for (int i = 0; i < n; i++) {
        const bool before = mp_precedes(c->order, node, nodes[i]);
        if (!before && !mp_precedes(c->order, nodes[i], node)) return false;
        if (before && at == n) at = i;
    }
    for (int i = n; i > at; i--) nodes[i] = nodes[i - 1];
    nodes[at] = node;
    return true;
}

/* Splits intervals as long as that raises the coupled bound. For each split, several nodes are tried and the best one is
 * inserted. */
mp_status mp_bound_split(mp_bound_chain *c, int *nodes, int *n, int64_t *ticks, mp_error *err)
{
    int64_t finally = 0;
    const int n_tried = BOUND_SPLIT_TRIALS * c->options.effort;
    MP_OWNED int *best = mp_alloc(2 * ((size_t)*n + MP_BOUND_MOST_SPLITS), sizeof *best);
    MP_ENSURE(best, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    int *trial = best + *n + MP_BOUND_MOST_SPLITS;
    for (int k = 0; k < MP_BOUND_MOST_SPLITS; k++) {
        int64_t most = *ticks;
        for (int i = 0; i < n_tried && !mp_bound_chain_ended(c); i++) {
            int64_t found = 0;
            const int candidate = (int)((int64_t)c->n_candidates * (2 * i + 1) / (2 * n_tried));
            memcpy(trial, nodes, (size_t)*n * sizeof *trial);
            if (!insert(c, trial, *n, c->candidates[candidate].node)) continue;
            MP_CHECK(couple(c, trial, *n + 1, BOUND_SPLIT_ROUNDS, &found, err));
            if (found <= most) continue;
            most = found;
            memcpy(best, trial, (size_t)(*n + 1) * sizeof *best);
        }
        if (most <= *ticks || c->infeasible) break;
        *ticks = most;
        memcpy(nodes, best, (size_t)++ * n * sizeof *nodes);
    }
    if (!mp_bound_chain_ended(c) && *n > 1) MP_CHECK(couple(c, nodes, *n, BOUND_COUPLE_ROUNDS, &finally, err));
    if (finally > *ticks) *ticks = finally;
    return MP_OK;
}

/* Returns element k of the van der Corput sequence, scaled to 0 .. n - 1. The first elements cover the range evenly for any
 * number of them. */
static int spread_place(int k, int n)
{
    int64_t place = 0, whole = 1;
    for (; k > 0; k /= 2, whole *= 2) place = 2 * place + k % 2;
    return (int)(place * n / whole);
}

/* Adds boundaries until there are `most`. spread_place yields a sequence of positions in the list of candidates. Of the
 * candidates near such a position, the one with the least free memory is added, unless it was tried before. Only candidates
 * after the first boundary are considered. Returns the number of boundaries. */
static int add_boundaries(const mp_bound_chain *c, int *nodes, int n, int most, mp_bound_selection *s)
{
    int first = 0;
    while (first < c->n_candidates && c->candidates[first].node != nodes[0]) first++;
    const int n_left = c->n_candidates - first, beside = n_left / (2 * most) + 1, last = s->place + 4 * most;
    for (; s->place < last && n < most; s->place++) {
        const int middle = first + spread_place(s->place, n_left);
        int best = -1;
        for (int k = middle - beside; k <= middle + beside; k++) {
            if (k <= first || k >= c->n_candidates || s->looked_at[k]) continue;
            if (best < 0 || c->candidates[k].free_bytes <= c->candidates[best].free_bytes) best = k;
        }
        if (best < 0) continue;
        s->looked_at[best] = true;
        if (insert(c, nodes, n, c->candidates[best].node)) n++;
    }
    return n;
}

/* Removes boundaries at which free memory has no value, except the first boundary. */
static int drop_worthless(int *nodes, int n, const int64_t *worth)
{
    int64_t sum = 0;
    int n_left = 0;
    for (int i = 0; i < n; i++) sum += worth[i] / n;
    for (int i = 0; i < n; i++)
        if (!i || worth[i] > sum / BOUND_LEAST_WORTH) nodes[n_left++] = nodes[i];
    return n_left;
}

/* True if free memory has a value at one boundary only. A programme with more boundaries then proves no more. */
static bool is_worthless(const mp_bound_selection *s)
{
    return s->tried && s->n < 2;
}

bool mp_bound_select_is_promising(mp_bound_chain *c, const mp_bound_selection *s, int64_t ticks)
{
    if (!s->is_done || !s->thorough || mp_bound_chain_ended(c) || s->value <= 0 ||
        (s->n < 2 && s->rows_per_pair > BOUND_SMALL_ROWS))
        return false;
    return mp_bound_interval_ticks(c->interval, s->value) >= ticks / 8 * 7;
}

/* Raises *value, in scaled ticks, by linear programmes. The first programme has the intervals between neighbouring boundaries
 * and the intervals from the first boundary. Later programmes also have the intervals whose rows were violated most. worth[i]:
 * value of the free memory at boundary i in the best programme. */
static mp_status overlap(mp_bound_chain *c, mp_bound_selection *s, const int *nodes, int n, int rounds, int64_t *value,
                         int64_t *worth, mp_error *err)
{
    mp_status st = MP_OK;
    MP_CLEARED_BY(mp_bound_overlap_clear) mp_bound_overlap o = {0};
    MP_OWNED_BY(mp_bound_relax_free) mp_bound_relax *relax = NULL;
    bool solved = true;
    *value = 0;
    memset(worth, 0, (size_t)n * sizeof *worth);
    st = mp_bound_overlap_init(&o, c->interval, nodes, n, &c->options, err);
    c->infeasible = st == MP_INFEASIBLE;
    if (c->infeasible) st = MP_OK;
    if (st != MP_OK || c->infeasible) return st;
    for (int i = 0; i < n; i++) MP_CHECK(mp_bound_overlap_add(&o, (mp_bound_pair){i, i + 1}, err));
    for (int j = 2; j <= n; j++) MP_CHECK(mp_bound_overlap_add(&o, (mp_bound_pair){0, j}, err));
    for (int k = 0; k < rounds && !mp_bound_chain_ended(c); k++) {
        const int before = o.n_pairs;
        if (k) MP_CHECK(mp_bound_relax_add_pairs(relax, (int)(s->rows * (k + 1) / rounds / s->rows_per_pair), err));
        if (k && o.n_pairs == before) break;
        MP_CHECK(mp_bound_relax_renew(&o, &relax, &s->work_left, &solved, err));
        const int64_t found = mp_bound_overlap_value(&o);
        if (found > *value) {
            *value = found;
            memcpy(worth, o.earned, (size_t)n * sizeof *worth);
        }
        if (!solved)
            break; /* if the solver reached its work limit, ends the loop, because later programmes have more intervals and need
                      more work */
    }
    return st;
}

static mp_status try_nodes(mp_bound_chain *c, mp_bound_selection *s, const int *nodes, int n, int rounds, int64_t *ticks,
                           mp_error *err)
{
    int64_t value = 0;
    MP_OWNED int64_t *worth = mp_alloc((size_t)n, sizeof *worth);
    MP_OWNED int *own = mp_alloc((size_t)n, sizeof *own);
    MP_ENSURE(worth && own, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    memcpy(own, nodes, (size_t)n * sizeof *own);
    MP_CHECK(overlap(c, s, nodes, n, rounds, &value, worth, err));
    const int64_t found = value > 0 ? mp_bound_interval_ticks(c->interval, value) : 0;
    s->tried = s->tried || n > 1;
    if (found > *ticks) *ticks = found;
    if (value < s->value) return MP_OK;
    s->value = value;
    s->n = drop_worthless(own, n, worth);
    mp_free(s->nodes);
    s->nodes = own;
    own = NULL;
    return MP_OK;
}

/* Solves linear programmes with the given boundaries, and then with additional boundaries, up to `most` in total. */
static mp_status try_boundaries(mp_bound_chain *c, mp_bound_selection *s, const int *start, int n_start, int most, int rounds,
                                int64_t *ticks, mp_error *err)
{
    MP_OWNED int *nodes = mp_alloc((size_t)(most > n_start ? most : n_start), sizeof *nodes);
    MP_ENSURE(nodes, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    memcpy(nodes, start, (size_t)n_start * sizeof *nodes);
    const int n = add_boundaries(c, nodes, n_start, most, s);
    if (rounds < 2 && start == s->nodes && n == n_start) return MP_OK; /* no new boundaries */
    return try_nodes(c, s, nodes, n, rounds, ticks, err);
}

mp_status mp_bound_select(mp_bound_chain *c, const int *nodes, int n, mp_bound_selection *s, int64_t *ticks, mp_error *err)
{
    const int effort = c->options.effort;
    s->rows = (int64_t)BOUND_ROWS * (effort < BOUND_ROWS_EFFORT ? effort : BOUND_ROWS_EFFORT);
    s->rows_per_pair = 1 + mp_bound_relax_rows(c->order);
    s->work_left = (int64_t)MP_BOUND_OVERLAP_WORK * effort;
    s->place = 0;
    s->is_done = false;
    int64_t most = (BOUND_SPARSE * s->rows / s->rows_per_pair + 1) / 2;
    if (most < n || (is_worthless(s) && (!s->thorough || s->rows_per_pair > BOUND_SMALL_ROWS))) return MP_OK;
    if (most > BOUND_BOUNDARIES + effort / 2) most = BOUND_BOUNDARIES + effort / 2;
    if (most < n) most = n;
    mp_free(s->looked_at);
    s->looked_at = mp_alloc((size_t)c->n_candidates, sizeof *s->looked_at);
    MP_ENSURE(s->looked_at, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    MP_CHECK(try_boundaries(c, s, nodes, n, (int)most, 1, ticks, err));
    for (int k = 1; k < BOUND_SELECTIONS + effort && !mp_bound_chain_ended(c) && s->work_left > 0; k++)
        MP_CHECK(try_boundaries(c, s, s->nodes, s->n, (int)most, 1, ticks, err));
    for (int k = 0; k < BOUND_REFINEMENTS && !mp_bound_chain_ended(c) && s->work_left > 0; k++) {
        /* ends the refinement if a linear programme with more boundaries would exceed the allowed number of rows */
        if ((2 * s->n - 1) * s->rows_per_pair >= s->rows) break;
        MP_CHECK(try_boundaries(c, s, s->nodes, s->n, s->n + k * BOUND_REFINE_MORE, BOUND_REFINE_PROGRAMMES, ticks, err));
    }
    s->is_done = true;
    return MP_OK;
}

/* ---- branch and bound, with the best boundaries ---- */

/* Returns the best candidate for a new boundary, or -1. Its shortage of memory is larger than that of its neighbours in the
 * list of candidates, and no other such candidate has a larger shortage. */
static int next_peak(const mp_bound_chain *c, const int *nodes, int n)
{
    int best = -1;
    for (int k = 0; k < c->n_candidates; k++) {
        const int64_t shortage = c->candidates[k].shortage_bytes;
        bool is_peak = (!k || c->candidates[k - 1].shortage_bytes < shortage) &&
                       (k + 1 == c->n_candidates || c->candidates[k + 1].shortage_bytes <= shortage);
        for (int i = 0; i < n && is_peak; i++)
            is_peak = mp_precedes(c->order, nodes[i], c->candidates[k].node) ||
                      mp_precedes(c->order, c->candidates[k].node, nodes[i]);
        if (is_peak && (best < 0 || shortage > c->candidates[best].shortage_bytes)) best = k;
    }
    return best;
}

mp_status mp_bound_select_tree(mp_bound_chain *c, const mp_bound_selection *s, int64_t *ticks, mp_error *err)
{
    mp_status st = MP_OK;
    int n = s->n;
    MP_OWNED int *nodes = mp_alloc((size_t)n + BOUND_TREE_BOUNDARIES, sizeof *nodes);
    MP_ENSURE(nodes, err, MP_NOMEM, "no memory for a bound of %d nodes", c->order->n);
    memcpy(nodes, s->nodes, (size_t)n * sizeof *nodes);
    for (int k = 0; k >= 0 && n < BOUND_TREE_BOUNDARIES;) {
        k = next_peak(c, nodes, n);
        if (k >= 0 && insert(c, nodes, n, c->candidates[k].node)) n++;
    }
    st = mp_bound_tree(c->interval, nodes, n, &c->options, (int64_t)MP_BOUND_TREE_WORK * c->options.effort, ticks, err);
    c->infeasible = st == MP_INFEASIBLE;
    if (c->infeasible) st = MP_OK;
    return st;
}

void mp_bound_selection_clear(mp_bound_selection *s)
{
    mp_free(s->nodes);
    mp_free(s->looked_at);
    memset(s, 0, sizeof *s);
}
