/* bound_overlap_relax.c - the linear programme over overlapping intervals. Its dual values are the multipliers of
 * bound_overlap.c.
 *
 * Columns:
 * - the storages live at each boundary
 * - the nodes recomputed between a boundary and the next one
 * - the nodes run in each interval (at most the runs between its boundaries)
 *
 * Rows: if a storage is needed in an interval, it must be live at the start or produced in the interval. A storage is needed if
 * the interval requires it, if a node that runs in the interval reads it, or if it is live at the end.
 *
 * Columns have no upper bound of 1, because larger values do not improve a solution. Storages that cannot be recomputed and use
 * little of the free memory are left out; their multipliers are 0. A column is added when a row first uses it. Rows are added
 * from the last boundary to the first, storages in reverse order of their producers.
 */
#include "planner/bound/overlap/bound_overlap.h"

#include <string.h>

#include "estimator/graph/liveness.h"
#include "planner/math/linear.h"
#include "planner/math/tuning.h"
#include "planner/order/precedence.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_SHORTFALL_SHARE = 1000, /* intervals that a solution violates by less than 1/1000 are not added */
};

/* special values of a column index. NONE: the storage or run is impossible. ALWAYS: it is available at no cost. OPEN: its
 * column is added when a row first uses it */
enum { NONE = -1, ALWAYS = -2, OPEN = -3 };

struct mp_bound_relax {
    mp_pool *pool; /* owns all arrays */
    mp_bound_overlap *o;
    mp_linear linear;
    double unit;        /* factor by which scaled ticks are multiplied to obtain costs of the linear programme */
    int *memory_row;    /* per boundary: index of the row that limits its free memory */
    double *bytes_unit; /* per boundary: factor by which bytes are multiplied to obtain coefficients of its memory row */
    int *live;          /* per boundary and storage: index of the column "the storage is live at the boundary" */
    int *runs;          /* per boundary and node: index of the column "the node runs between this boundary and the next" */
    int *in;            /* per node: index of the column "the node runs in the current interval" */
    /* per pair of boundaries and node: index of the row that limits the fraction of the node that runs in the interval; -1:
     * none */
    int *run_row;
    /* per pair of boundaries and storage. live_row: index of its first row; n_rows: number of its rows, which are
     * consecutive */
    int *live_row, *n_rows;
    /* per pair of boundaries and storage: number of rows that exist because the storage is live at the end of the interval.
     * They are the last rows of this pair and storage */
    int *n_reward_rows;
    int *latest, n_storages; /* the storages that can be live at a boundary, those produced last first */
    double *made;            /* per node: the fraction of the node that can run in the current interval */
};

static const mp_precedence *order_of(const mp_bound_relax *r)
{
    return r->o->x->order;
}

/* True if v may run after a boundary. Either its first run is after the boundary in some plan, or it may be recomputed. */
static bool may_run(const mp_bound_relax *r, int i, int v)
{
    const mp_bound_interval *x = r->o->x;
    if (x->order->repeatable[v] || x->node_vertex[v] < 0) return x->order->repeatable[v];
    return v != r->o->nodes[i] && !mp_precedes(x->order, v, r->o->nodes[i]);
}

/* Adds the memory row of boundary i, and marks the columns that are possible at this boundary. */
static void add_boundary(mp_bound_relax *r, int i)
{
    const mp_bound_overlap *o = r->o;
    const int64_t *bytes = o->bytes + (size_t)i * o->n_storages, *ticks = o->ticks + (size_t)i * o->n_nodes;
    int64_t most = 1;
    for (size_t s = 0; s < o->n_storages; s++) {
        const bool counts = order_of(r)->recomputable[s] || bytes[s] > o->free_bytes[i] / MP_BOUND_SMALL_SHARE;
        r->live[(size_t)i * o->n_storages + s] = bytes[s] > 0 && counts ? OPEN : ALWAYS;
        if (bytes[s] > most) most = bytes[s];
    }
    for (size_t v = 0; v < o->n_nodes; v++)
        r->runs[(size_t)i * o->n_nodes + v] = !may_run(r, i, (int)v) ? NONE : ticks[v] ? OPEN : ALWAYS;
    r->bytes_unit[i] = (double)most;
    r->memory_row[i] = mp_linear_row(&r->linear, -(double)o->free_bytes[i] / (double)most);
}

static int live_column(mp_bound_relax *r, int i, int s)
{
    const size_t place = (size_t)i * r->o->n_storages + (size_t)s;
    if (r->live[place] == OPEN) {
        r->live[place] = mp_linear_column(&r->linear, 0);
        mp_linear_entry(&r->linear, r->memory_row[i], r->live[place], -(double)r->o->bytes[place] / r->bytes_unit[i]);
    }
    return r->live[place];
}

static int run_column(mp_bound_relax *r, int i, int v)
{
    const size_t place = (size_t)i * r->o->n_nodes + (size_t)v;
    if (r->runs[place] == OPEN) r->runs[place] = mp_linear_column(&r->linear, (double)r->o->ticks[place] / r->unit);
    return r->runs[place];
}

/* Returns the column "node v runs in the interval of pair p". Its value is at most the sum of the columns "v runs between a
 * boundary and the next" within the interval. */
static int in_column(mp_bound_relax *r, int p, int v)
{
    const mp_bound_pair pair = r->o->pairs[p];
    if (r->in[v] != OPEN) return r->in[v];
    r->in[v] = run_column(r, pair.from, v);
    if (r->in[v] == NONE || (r->in[v] >= 0 && pair.to == pair.from + 1)) return r->in[v];
    const bool limited = r->in[v] >= 0;
    r->in[v] = mp_linear_column(&r->linear, 0);
    if (!limited) return r->in[v];
    const int row = mp_linear_row(&r->linear, 0);
    mp_linear_entry(&r->linear, row, r->in[v], -1);
    for (int k = pair.from; k < pair.to; k++) mp_linear_entry(&r->linear, row, run_column(r, k, v), 1);
    r->run_row[(size_t)p * r->o->n_nodes + (size_t)v] = row;
    return r->in[v];
}

/* True if s can be produced after a boundary. That is so unless a producer of s that runs only once has run before the
 * boundary. */
static bool can_be_made(const mp_bound_relax *r, int i, int s)
{
    const mp_bound_interval *x = r->o->x;
    for (int k = x->producers_start[s]; k < x->producers_start[s + 1]; k++)
        if (!may_run(r, i, x->producers[k])) return false;
    return x->producers_start[s] < x->producers_start[s + 1];
}

/* Returns the next producer of s in an interval, starting at index *k of the producers; NONE: no more. Only a sum has several
 * producers. Adders that may run after the interval are omitted. */
static int next_producer(const mp_bound_relax *r, mp_bound_pair pair, int s, int *k)
{
    const mp_bound_overlap *o = r->o;
    const mp_bound_interval *x = o->x;
    for (; *k < x->producers_start[s + 1] - x->producers_start[s]; ++*k) {
        const int v = x->producers[x->producers_start[s] + *k];
        const bool is_certain = pair.to == o->n || v == o->nodes[pair.to] || mp_precedes(x->order, v, o->nodes[pair.to]);
        if (x->producer_arc[x->producers_start[s] + *k] < 0 || is_certain) {
            ++*k;
            return v;
        }
    }
    return NONE;
}

static void add_row_of(mp_bound_relax *r, size_t place, int live, int in, int demanded)
{
    const int row = mp_linear_row(&r->linear, demanded == NONE);
    mp_linear_entry(&r->linear, row, live, 1);
    if (in != NONE) mp_linear_entry(&r->linear, row, in, 1);
    if (demanded != NONE) mp_linear_entry(&r->linear, row, demanded, -1);
    if (!r->n_rows[place]++) r->live_row[place] = row;
}

/* Adds a row for storage s in an interval: s is live at the start or produced in the interval, at least to the fraction of the
 * column `demanded` (NONE: as a whole). */
static void add_row(mp_bound_relax *r, int p, int s, int demanded)
{
    const size_t place = (size_t)p * r->o->n_storages + (size_t)s;
    const mp_bound_pair pair = r->o->pairs[p];
    const int live = live_column(r, pair.from, s);
    if (!can_be_made(r, pair.from, s)) {
        add_row_of(r, place, live, NONE, demanded);
        return;
    }
    for (int k = 0, v; (v = next_producer(r, pair, s, &k)) != NONE;) add_row_of(r, place, live, in_column(r, p, v), demanded);
}

static void relax_storage(mp_bound_relax *r, int p, int s)
{
    const mp_bound_overlap *o = r->o;
    const mp_precedence *order = order_of(r);
    const mp_graph *graph = order->graph;
    const mp_bound_pair pair = o->pairs[p];
    const bool outlives_step = mp_storage_outlives_step(&graph->storages[s]);
    if (r->live[(size_t)pair.from * o->n_storages + (size_t)s] == ALWAYS) return;
    if (o->needed[mp_bound_overlap_place(o, pair) + (size_t)s]) {
        add_row(r, p, s, NONE);
        return;
    }
    for (int k = graph->readers_start[s]; k < graph->readers_start[s + 1] && !outlives_step; k++) {
        const int v = graph->readers[k];
        if (r->in[v] >= 0 && mp_always_reads(order, v, s)) add_row(r, p, s, r->in[v]);
    }
    const int live = pair.to < o->n ? r->live[(size_t)pair.to * o->n_storages + (size_t)s] : NONE;
    if (live < 0) return;
    const size_t place = (size_t)p * o->n_storages + (size_t)s;
    const int n_before = r->n_rows[place];
    add_row(r, p, s, live);
    r->n_reward_rows[place] = r->n_rows[place] - n_before;
}

static void add_pair(mp_bound_relax *r, int p)
{
    for (size_t v = 0; v < r->o->n_nodes; v++) r->in[v] = r->o->x->node_vertex[v] >= 0 ? OPEN : NONE;
    for (int k = 0; k < r->n_storages; k++) relax_storage(r, p, r->latest[k]);
}

/* Sets r->latest, the storages by time of production. A sum counts as produced by its last adder. */
static mp_status find_latest(mp_bound_relax *r, mp_error *err)
{
    const mp_precedence *order = order_of(r);
    const mp_graph *graph = order->graph;
    int *last = r->in; /* linked lists of outputs: per node, the first of its outputs in the list */
    MP_OWNED int *next = mp_alloc(graph->n_storages, sizeof *next), *place = mp_alloc((size_t)order->n, sizeof *place);
    MP_ENSURE(next && place, err, MP_NOMEM, "no memory for a bound of %zu nodes", graph->n_nodes);
    for (size_t v = 0; v < graph->n_nodes; v++) last[v] = -1;
    for (int i = 0; i < order->n; i++) place[order->sequence[i]] = i;
    for (int s = 0; s < (int)graph->n_storages; s++) {
        int producer = graph->producer[s];
        if (r->o->x->storage_vertex[s] < 0) continue;
        for (int a = graph->adders_start[s]; a < graph->adders_start[s + 1]; a++)
            if (producer < 0 || place[graph->adders[a]] > place[producer]) producer = graph->adders[a];
        next[s] = last[producer];
        last[producer] = s;
    }
    for (int i = order->n - 1; i >= 0; i--) {
        /* the vertex after the last node is the end of backward, which has no outputs */
        if (order->sequence[i] == order->n - 1) continue;
        for (int s = last[order->sequence[i]]; s >= 0; s = next[s]) r->latest[r->n_storages++] = s;
    }
    return MP_OK;
}

/* Returns the multiplier of a row in scaled ticks. */
static int64_t multiplier_of(const mp_bound_relax *r, int row)
{
    const mp_bound_interval *x = r->o->x;
    const double price = r->linear.dual[row] * (r->unit * (double)x->scale_num / (double)x->scale_den);
    return price < (double)x->ticks_bound ? (int64_t)price : x->ticks_bound;
}

static int64_t add_multipliers(const mp_bound_relax *r, int row, int end)
{
    int64_t sum = 0;
    for (; row < end; row++) {
        sum += multiplier_of(r, row);
        if (sum > r->o->x->ticks_bound) sum = r->o->x->ticks_bound;
    }
    return sum;
}

static void read_multipliers(const mp_bound_relax *r)
{
    const mp_bound_overlap *o = r->o;
    for (size_t k = 0; k < (size_t)o->n_pairs * o->n_nodes; k++)
        o->run[k] = r->run_row[k] < 0 ? 0 : multiplier_of(r, r->run_row[k]);
    for (size_t k = 0; k < (size_t)o->n_pairs * o->n_storages; k++) {
        const int end = r->live_row[k] + r->n_rows[k];
        o->live[k] = add_multipliers(r, r->live_row[k], end);
        o->reward[k] = add_multipliers(r, end - r->n_reward_rows[k], end);
    }
}

static double at_most_one(double value)
{
    return value < 1 ? value : 1;
}

/* Returns the value that a column has in the solution. */
static double value_of(const mp_bound_relax *r, int column)
{
    return column == ALWAYS ? 1 : column < 0 ? 0 : r->linear.x[column];
}

/* Returns the fraction of storage s that is available in the interval, given for each node the fraction that runs in the
 * interval. */
static double share_there(const mp_bound_relax *r, mp_bound_pair pair, int s)
{
    const int column = r->live[(size_t)pair.from * r->o->n_storages + (size_t)s];
    double made = 1;
    if (column == ALWAYS) return 1;
    if (!can_be_made(r, pair.from, s)) return at_most_one(value_of(r, column));
    for (int k = 0, v; (v = next_producer(r, pair, s, &k)) != NONE;)
        if (r->made[v] < made) made = r->made[v];
    return at_most_one(value_of(r, column) + made);
}

/* Returns the sum by which the solution violates the rows of an interval. It assumes that each node runs to the largest
 * fraction that its inputs allow. */
static double shortfall(const mp_bound_relax *r, mp_bound_pair pair)
{
    const mp_bound_overlap *o = r->o;
    const mp_precedence *order = order_of(r);
    const bool *needed = o->needed + mp_bound_overlap_place(o, pair);
    double sum = 0;
    memset(r->made, 0, o->n_nodes * sizeof *r->made);
    for (int i = 0; i < order->n; i++) {
        const int v = order->sequence[i];
        if (v == order->n - 1 || o->x->node_vertex[v] < 0) continue;
        double made = 0;
        for (int k = pair.from; k < pair.to && made < 1; k++) made += value_of(r, r->runs[(size_t)k * o->n_nodes + (size_t)v]);
        for (int k = order->reads_start[v]; k < order->reads_start[v + 1] && made > 0; k++) {
            if (mp_storage_outlives_step(&order->graph->storages[order->reads[k]])) continue;
            const double there = share_there(r, pair, order->reads[k]);
            if (there < made) made = there;
        }
        r->made[v] = at_most_one(made);
    }
    for (size_t s = 0; s < o->n_storages; s++) {
        const int live = pair.to < o->n ? r->live[(size_t)pair.to * o->n_storages + s] : ALWAYS;
        const double demanded = needed[s] ? 1 : live == ALWAYS ? 0 : value_of(r, live);
        const double there = demanded > 0 ? share_there(r, pair, (int)s) : 1;
        if (there < demanded) sum += demanded - there;
    }
    return sum;
}

mp_status mp_bound_relax_add_pairs(const mp_bound_relax *r, int most, mp_error *err)
{
    mp_bound_overlap *o = r->o;
    const int n_solved = o->n_pairs, n = o->n * (o->n + 1);
    MP_OWNED double *more = mp_alloc((size_t)n, sizeof *more);
    MP_ENSURE(more, err, MP_NOMEM, "no memory for a bound of %zu nodes", o->n_nodes);
    for (int i = 0; i < o->n; i++)
        for (int j = i + 1; j <= o->n; j++) more[i * (o->n + 1) + j] = shortfall(r, (mp_bound_pair){i, j});
    for (int p = 0; p < n_solved; p++) more[o->pairs[p].from * (o->n + 1) + o->pairs[p].to] = 0;
    while (o->n_pairs < most) {
        int best = 0;
        for (int k = 1; k < n; k++)
            if (more[k] > more[best]) best = k;
        if (more[best] < 1.0 / BOUND_SHORTFALL_SHARE) break;
        more[best] = 0;
        MP_CHECK(mp_bound_overlap_add(o, (mp_bound_pair){best / (o->n + 1), best % (o->n + 1)}, err));
    }
    return MP_OK;
}

int64_t mp_bound_relax_rows(const mp_precedence *order)
{
    int64_t rows = 0;
    for (size_t v = 0; v < order->graph->n_nodes; v++)
        if (order->repeatable[v]) rows += 1 + order->reads_start[v + 1] - order->reads_start[v];
    for (size_t s = 0; s < order->graph->n_storages; s++) rows += order->recomputable[s];
    return rows;
}

static mp_status new_programme(mp_bound_overlap *o, mp_bound_relax **out, mp_error *err)
{
    const size_t n = (size_t)o->n, n_pairs = (size_t)o->n_pairs;
    MP_OWNED_BY(mp_bound_relax_free) mp_bound_relax *r = mp_alloc(1, sizeof *r);
    MP_ENSURE(r, err, MP_NOMEM, "no memory for a bound of %zu nodes", o->n_nodes);
    r->o = o;
    r->pool = mp_pool_new();
    r->unit = 1;
    r->linear = (mp_linear){.stop = o->options->stop, .stop_data = o->options->data};
    r->memory_row = mp_pool_alloc(r->pool, n, sizeof *r->memory_row);
    r->bytes_unit = mp_pool_alloc(r->pool, n, sizeof *r->bytes_unit);
    r->live = mp_pool_alloc(r->pool, n * o->n_storages, sizeof *r->live);
    r->runs = mp_pool_alloc(r->pool, n * o->n_nodes, sizeof *r->runs);
    r->in = mp_pool_alloc(r->pool, o->n_nodes, sizeof *r->in);
    r->run_row = mp_pool_alloc(r->pool, n_pairs * o->n_nodes, sizeof *r->run_row);
    r->live_row = mp_pool_alloc(r->pool, n_pairs * o->n_storages, sizeof *r->live_row);
    r->n_rows = mp_pool_alloc(r->pool, n_pairs * o->n_storages, sizeof *r->n_rows);
    r->n_reward_rows = mp_pool_alloc(r->pool, n_pairs * o->n_storages, sizeof *r->n_reward_rows);
    r->latest = mp_pool_alloc(r->pool, o->n_storages, sizeof *r->latest);
    r->made = mp_pool_alloc(r->pool, o->n_nodes, sizeof *r->made);
    MP_ENSURE(!mp_pool_failed(r->pool), err, MP_NOMEM, "no memory for a bound of %zu nodes", o->n_nodes);
    for (size_t k = 0; k < n_pairs * o->n_nodes; k++) r->run_row[k] = -1;
    for (size_t k = 0; k < n * o->n_nodes; k++)
        if ((double)o->ticks[k] > r->unit) r->unit = (double)o->ticks[k];
    MP_CHECK(find_latest(r, err));
    for (int i = 0; i < o->n; i++) add_boundary(r, i);
    /* pairs are visited from the last boundary to the first, so that rows for an interval's end exist before the interval is
     * added */
    for (int i = o->n - 1; i >= 0; i--)
        for (int p = 0; p < o->n_pairs; p++)
            if (o->pairs[p].from == i) add_pair(r, p);
    *out = r;
    r = NULL;
    return MP_OK;
}

void mp_bound_relax_free(mp_bound_relax *r)
{
    if (!r) return;
    mp_linear_clear(&r->linear);
    mp_pool_free(r->pool);
    mp_free(r);
}

mp_status mp_bound_relax_solve(mp_bound_relax *r, int64_t most_work, bool *solved, mp_error *err)
{
    const mp_status st = mp_linear_solve(&r->linear, most_work, err);
    r->o->x->work.n_pivots += r->linear.work;
    *solved = st == MP_OK && r->linear.solved;
    /* the multipliers are read even if the solver stopped early or found no solution, because any dual values prove a bound */
    if (st == MP_OK && r->linear.value > 0) read_multipliers(r);
    return st;
}

mp_status mp_bound_relax_renew(mp_bound_overlap *o, mp_bound_relax **r, int64_t *work_left, bool *solved, mp_error *err)
{
    mp_bound_relax_free(*r);
    *r = NULL;
    MP_CHECK(mp_bound_overlap_reserve(o, err));
    MP_CHECK(new_programme(o, r, err));
    MP_CHECK(mp_bound_relax_solve(*r, *work_left, solved, err));
    *work_left -= (*r)->linear.work;
    return MP_OK;
}

mp_linear *mp_bound_relax_linear(mp_bound_relax *r)
{
    return &r->linear;
}

int mp_bound_relax_live(const mp_bound_relax *r, int boundary, int storage)
{
    return r->live[(size_t)boundary * r->o->n_storages + (size_t)storage];
}
