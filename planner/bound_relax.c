/* bound_relax.c - the linear programme over overlapping intervals, whose rows' prices are what bound_overlap.c is after.
 *
 * Columns: what is held at each boundary, and what runs again between each and the next; for every interval, what runs in it
 * (no more than between its boundaries) and what is there at some time. What is needed is there; what is there was held at the
 * start or runs; who runs has there what it reads; what is held at the end was there. None has to be bounded by 1: more is of
 * no use.
 */
#include "planner/bound_overlap.h"

#include <string.h>

#include "estimator/memory.h"
#include "planner/bound_linear.h"

enum { NONE = -1, ALWAYS = -2 }; /* instead of a column: not at all; at no cost */

typedef struct relax {
    mp_bound_overlap *o;
    mp_bound_linear linear;
    double unit;                          /* of ticks */
    int *held;                            /* per boundary and storage: its column */
    int *runs;                            /* per boundary and node: its column */
    int *in;                              /* per node, of one interval */
    int *there;                           /* per storage, of one interval */
    int *run_row, *held_row, *reward_row; /* per pair and node or storage, -1: none */
    double *made;                         /* per node, of one interval: how much of it can run there */
} relax;

static const mp_bound_order *order_of(const relax *r)
{
    return r->o->x->order;
}

/* What is held, what that takes, what runs. */
static void add_boundary(relax *r, int i)
{
    const mp_bound_overlap *o = r->o;
    const mp_bound_order *order = order_of(r);
    const int64_t *bytes = o->bytes + (size_t)i * o->n_storages, *ticks = o->ticks + (size_t)i * o->n_nodes;
    int64_t most = 1;
    for (size_t s = 0; s < o->n_storages; s++)
        if (bytes[s] > most) most = bytes[s];
    const int row = mp_bound_linear_row(&r->linear, -(double)o->room_bytes[i] / (double)most);
    for (size_t s = 0; s < o->n_storages; s++) {
        int *column = &r->held[(size_t)i * o->n_storages + s];
        *column = bytes[s] > 0 ? mp_bound_linear_column(&r->linear, 0) : ALWAYS;
        if (bytes[s] > 0) mp_bound_linear_entry(&r->linear, row, *column, -(double)bytes[s] / (double)most);
    }
    for (size_t v = 0; v < o->n_nodes; v++) {
        int *column = &r->runs[(size_t)i * o->n_nodes + v];
        *column = !order->repeatable[v] ? NONE
                  : ticks[v]            ? mp_bound_linear_column(&r->linear, (double)ticks[v] / r->unit)
                                        : ALWAYS;
    }
}

/* What runs in the interval: no more than between its boundaries. */
static void add_runs(relax *r, int p)
{
    const mp_bound_overlap *o = r->o;
    const mp_bound_pair pair = o->pairs[p];
    for (size_t v = 0; v < o->n_nodes; v++) {
        const int first = r->runs[(size_t)pair.from * o->n_nodes + v];
        r->in[v] = first;
        if (first == NONE || (first >= 0 && pair.to == pair.from + 1)) continue;
        r->in[v] = mp_bound_linear_column(&r->linear, 0);
        if (first == ALWAYS) continue;
        const int row = mp_bound_linear_row(&r->linear, 0);
        mp_bound_linear_entry(&r->linear, row, r->in[v], -1);
        for (int k = pair.from; k < pair.to; k++)
            mp_bound_linear_entry(&r->linear, row, r->runs[(size_t)k * o->n_nodes + v], 1);
        r->run_row[(size_t)p * o->n_nodes + v] = row;
    }
}

static void add_storages(relax *r, int p)
{
    const mp_bound_overlap *o = r->o;
    const mp_bound_pair pair = o->pairs[p];
    const bool *needed = o->needed + mp_bound_overlap_place(o, pair);
    for (size_t s = 0; s < o->n_storages; s++) {
        const int held = r->held[(size_t)pair.from * o->n_storages + s], producer = order_of(r)->graph->producer[s];
        r->there[s] = ALWAYS;
        if (held == ALWAYS) continue;
        const int row = mp_bound_linear_row(&r->linear, needed[s]);
        mp_bound_linear_entry(&r->linear, row, held, 1);
        if (r->in[producer] != NONE) mp_bound_linear_entry(&r->linear, row, r->in[producer], 1);
        r->held_row[(size_t)p * o->n_storages + s] = row;
        if (needed[s]) continue;
        r->there[s] = mp_bound_linear_column(&r->linear, 0);
        mp_bound_linear_entry(&r->linear, row, r->there[s], -1);
    }
    for (size_t s = 0; s < o->n_storages && pair.to < o->n; s++) {
        const int held = r->held[(size_t)pair.to * o->n_storages + s];
        if (held == ALWAYS || r->there[s] == ALWAYS) continue;
        const int row = mp_bound_linear_row(&r->linear, 0);
        mp_bound_linear_entry(&r->linear, row, r->there[s], 1);
        mp_bound_linear_entry(&r->linear, row, held, -1);
        r->reward_row[(size_t)p * o->n_storages + s] = row;
    }
}

static void add_pair(relax *r, int p)
{
    const mp_bound_order *order = order_of(r);
    add_runs(r, p);
    add_storages(r, p);
    for (size_t v = 0; v < r->o->n_nodes; v++) {
        if (r->in[v] == NONE) continue;
        for (int k = order->reads_start[v]; k < order->reads_start[v + 1]; k++) {
            if (r->there[order->reads[k]] == ALWAYS) continue;
            const int row = mp_bound_linear_row(&r->linear, 0);
            mp_bound_linear_entry(&r->linear, row, r->there[order->reads[k]], 1);
            mp_bound_linear_entry(&r->linear, row, r->in[v], -1);
        }
    }
}

static void read_prices(const relax *r, const int *rows, size_t n, int64_t *prices)
{
    const mp_bound_interval *x = r->o->x;
    const double scale = r->unit * (double)x->up / (double)x->down;
    for (size_t k = 0; k < n; k++) {
        const double price = rows[k] < 0 ? 0 : r->linear.price[rows[k]] * scale;
        prices[k] = price < (double)x->most ? (int64_t)price : x->most;
    }
}

static double at_most_one(double value)
{
    return value < 1 ? value : 1;
}

/* How much of s is there, given what runs in the interval. */
static double share_there(const relax *r, int from, int s)
{
    const int column = r->held[(size_t)from * r->o->n_storages + (size_t)s], producer = order_of(r)->graph->producer[s];
    return column == ALWAYS ? 1 : at_most_one(r->linear.x[column] + r->made[producer]);
}

/* By how much the solution falls short in an interval, where what runs is as much as what it reads allows. */
static double shortfall(const relax *r, mp_bound_pair pair)
{
    const mp_bound_overlap *o = r->o;
    const mp_bound_order *order = order_of(r);
    const bool *needed = o->needed + mp_bound_overlap_place(o, pair);
    double sum = 0;
    memset(r->made, 0, o->n_nodes * sizeof *r->made);
    for (int i = 0; i < order->n; i++) {
        const int v = order->sequence[i];
        if (v == order->n - 1 || !order->repeatable[v]) continue;
        double made = 0;
        for (int k = pair.from; k < pair.to && made < 1; k++) {
            const int column = r->runs[(size_t)k * o->n_nodes + (size_t)v];
            made += column == ALWAYS ? 1 : r->linear.x[column];
        }
        for (int k = order->reads_start[v]; k < order->reads_start[v + 1] && made > 0; k++) {
            const double there = share_there(r, pair.from, order->reads[k]);
            if (there < made) made = there;
        }
        r->made[v] = at_most_one(made);
    }
    for (size_t s = 0; s < o->n_storages; s++) {
        const int held = pair.to < o->n ? r->held[(size_t)pair.to * o->n_storages + s] : ALWAYS;
        const double wanted = needed[s] ? 1 : held == ALWAYS ? 0 : r->linear.x[held];
        const double there = wanted > 0 ? share_there(r, pair.from, (int)s) : 1;
        if (there < wanted) sum += wanted - there;
    }
    return sum;
}

static void find_shortfalls(const relax *r, double *more)
{
    const mp_bound_overlap *o = r->o;
    for (int i = 0; i < o->n; i++)
        for (int j = i + 1; j <= o->n; j++) {
            bool is_there = false;
            for (int p = 0; p < o->n_pairs && !is_there; p++) is_there = o->pairs[p].from == i && o->pairs[p].to == j;
            more[i * (o->n + 1) + j] = is_there ? 0 : shortfall(r, (mp_bound_pair){i, j});
        }
}

int64_t mp_bound_overlap_rows(const mp_bound_order *order)
{
    int64_t rows = 0;
    for (size_t v = 0; v < order->graph->n_nodes; v++)
        if (order->repeatable[v]) rows += 1 + order->reads_start[v + 1] - order->reads_start[v];
    for (size_t s = 0; s < order->graph->n_storages; s++) rows += order->remade[s];
    return rows;
}

mp_status mp_bound_overlap_prices(mp_bound_overlap *o, double *more, mp_error *err)
{
    mp_status st = MP_OK;
    relax r = {.o = o, .unit = 1};
    const size_t n = (size_t)o->n, n_pairs = (size_t)o->n_pairs;
    r.held = mp_alloc(n * o->n_storages, sizeof *r.held);
    r.runs = mp_alloc(n * o->n_nodes, sizeof *r.runs);
    r.in = mp_alloc(o->n_nodes, sizeof *r.in);
    r.there = mp_alloc(o->n_storages, sizeof *r.there);
    r.run_row = mp_alloc(n_pairs * o->n_nodes, sizeof *r.run_row);
    r.held_row = mp_alloc(n_pairs * o->n_storages, sizeof *r.held_row);
    r.reward_row = mp_alloc(n_pairs * o->n_storages, sizeof *r.reward_row);
    r.made = mp_alloc(o->n_nodes, sizeof *r.made);
    MP_REQUIRE(r.held && r.runs && r.in && r.there && r.run_row && r.held_row && r.reward_row && r.made, err, MP_NOMEM,
               "no memory for a bound of %zu nodes", o->n_nodes);
    for (size_t k = 0; k < n_pairs * o->n_nodes; k++) r.run_row[k] = -1;
    for (size_t k = 0; k < n_pairs * o->n_storages; k++) r.held_row[k] = r.reward_row[k] = -1;
    for (size_t k = 0; k < n * o->n_nodes; k++)
        if ((double)o->ticks[k] > r.unit) r.unit = (double)o->ticks[k];
    for (int i = 0; i < o->n; i++) add_boundary(&r, i);
    for (int p = 0; p < o->n_pairs; p++) add_pair(&r, p);
    MP_TRY(mp_bound_linear_solve(&r.linear, err));
    read_prices(&r, r.run_row, n_pairs * o->n_nodes, o->run);
    read_prices(&r, r.held_row, n_pairs * o->n_storages, o->held);
    read_prices(&r, r.reward_row, n_pairs * o->n_storages, o->reward);
    if (more) find_shortfalls(&r, more);
done:
    mp_bound_linear_clear(&r.linear);
    mp_free(r.held);
    mp_free(r.runs);
    mp_free(r.in);
    mp_free(r.there);
    mp_free(r.run_row);
    mp_free(r.held_row);
    mp_free(r.reward_row);
    mp_free(r.made);
    return st;
}
