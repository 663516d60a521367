/* bound_overlap.c - computes the bound of overlapping intervals for given multipliers.
 *
 * Let H be the live set at a boundary, and R the set of recomputations between this boundary and the next. Let C be the set of
 * recomputations that an interval requires. An interval may cover several sets R.
 *
 * Each interval that covers a recomputation counts a share of its ticks. The shares of longer intervals are at least zero. The
 * shortest interval counts the remaining ticks, which may be negative. The ticks of all R are therefore at least the sum of
 * share * C over all intervals.
 *
 * For each storage that is live at its start, an interval pays a multiplier to the H of this boundary. For each storage in the
 * H at its end, the interval earns a multiplier if the storage is available in the interval. The sum of the intervals' minima,
 * minus the most that each H can earn within its free memory, is a lower bound.
 */
#include "planner/bound/overlap/bound_overlap.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    BOUND_KNAPSACK_STEPS = 20000, /* steps of branch and bound over the storages live at one boundary */
};

struct mp_bound_item {
    int64_t price, bytes;
    bool taken;
};

size_t mp_bound_overlap_place(const mp_bound_overlap *o, mp_bound_pair pair)
{
    return (size_t)(pair.from * (o->n + 1) + pair.to) * o->n_storages;
}

/* Computes the free memory at each boundary, the bytes of each storage there, and the storages that each interval requires.
 * Returns false if a single node needs more than the budget. */
static bool measure(mp_bound_overlap *o)
{
    mp_bound_interval *x = o->x;
    for (int i = 0; i < o->n; i++) {
        for (int j = i + 1; j <= o->n; j++) {
            mp_bound_interval_start(x, o->nodes[i]);
            if (j == i + 1) {
                o->free_bytes[i] = x->free_bytes;
                if (x->free_bytes < 0) return false;
                for (size_t s = 0; s < o->n_storages; s++)
                    o->bytes[(size_t)i * o->n_storages + s] = x->storage_vertex[s] < 0 ? -1 : x->bytes[s];
                for (size_t v = 0; v < o->n_nodes; v++)
                    o->ticks[(size_t)i * o->n_nodes + v] = x->order->repeatable[v] ? x->ticks[v] : 0;
            }
            mp_bound_interval_end(x, j < o->n ? o->nodes[j] : -1);
            bool *needed = o->needed + mp_bound_overlap_place(o, (mp_bound_pair){i, j});
            for (size_t s = 0; s < o->n_storages; s++) needed[s] = x->is_required[s] && !x->covers_two[s];
        }
    }
    return true;
}

mp_status mp_bound_overlap_init(mp_bound_overlap *o, mp_bound_interval *x, const int *nodes, int n,
                                const mp_bound_options *options, mp_error *err)
{
    const mp_graph *graph = x->order->graph;
    const size_t points = (size_t)n;
    *o = (mp_bound_overlap){.x = x, .options = options, .n = n, .n_nodes = graph->n_nodes, .n_storages = graph->n_storages};
    o->pool = mp_pool_new();
    o->nodes = mp_pool_alloc(o->pool, points, sizeof *o->nodes);
    o->free_bytes = mp_pool_alloc(o->pool, points, sizeof *o->free_bytes);
    o->bytes = mp_pool_alloc(o->pool, points * o->n_storages, sizeof *o->bytes);
    o->ticks = mp_pool_alloc(o->pool, points * o->n_nodes, sizeof *o->ticks);
    o->needed = mp_pool_alloc(o->pool, points * (points + 1) * o->n_storages, sizeof *o->needed);
    o->decision = mp_pool_alloc(o->pool, points * o->n_storages, sizeof *o->decision);
    o->earned = mp_pool_alloc(o->pool, points, sizeof *o->earned);
    o->items = mp_pool_alloc(o->pool, o->n_storages, sizeof *o->items);
    MP_ENSURE(!mp_pool_failed(o->pool), err, MP_NOMEM, "no memory for a bound of %zu nodes", o->n_nodes);
    memcpy(o->nodes, nodes, points * sizeof *nodes);
    return measure(o) ? MP_OK : MP_INFEASIBLE;
}

void mp_bound_overlap_clear(mp_bound_overlap *o)
{
    mp_pool_free(o->pool);
    mp_free(o->pairs);
    mp_free(o->live);
    mp_free(o->reward);
    mp_free(o->run);
    memset(o, 0, sizeof *o);
}

mp_status mp_bound_overlap_add(mp_bound_overlap *o, mp_bound_pair pair, mp_error *err)
{
    for (int p = 0; p < o->n_pairs; p++)
        if (o->pairs[p].from == pair.from && o->pairs[p].to == pair.to) return MP_OK;
    if (!mp_grow(&o->pairs, &o->pairs_capacity, (size_t)o->n_pairs + 1, sizeof *o->pairs))
        return MP_FAIL(err, MP_NOMEM, "no memory for a bound of %zu nodes", o->n_nodes);
    o->pairs[o->n_pairs++] = pair;
    return MP_OK;
}

mp_status mp_bound_overlap_reserve(mp_bound_overlap *o, mp_error *err)
{
    const size_t n = (size_t)o->n_pairs;
    mp_free(o->live);
    mp_free(o->reward);
    mp_free(o->run);
    o->live = mp_alloc(n * o->n_storages, sizeof *o->live);
    o->reward = mp_alloc(n * o->n_storages, sizeof *o->reward);
    o->run = mp_alloc(n * o->n_nodes, sizeof *o->run);
    if (o->live && o->reward && o->run) return MP_OK;
    return MP_FAIL(err, MP_NOMEM, "no memory for a bound of %zu nodes", o->n_nodes);
}

void mp_bound_overlap_share_out(mp_bound_overlap *o, size_t v)
{
    for (int p = 0; p < o->n_pairs; p++)
        if (!o->ticks[(size_t)o->pairs[p].from * o->n_nodes + v]) o->run[(size_t)p * o->n_nodes + v] = 0;
    for (int k = 0; k < o->n; k++) {
        int64_t left = mp_bound_interval_scale(o->x, o->ticks[(size_t)k * o->n_nodes + v]), *rest = NULL;
        for (int p = 0; p < o->n_pairs; p++) {
            int64_t *share = &o->run[(size_t)p * o->n_nodes + v];
            if (o->pairs[p].from == k && o->pairs[p].to == k + 1)
                rest = share;
            else if (o->pairs[p].from <= k && k < o->pairs[p].to)
                left -= *share;
        }
        *rest = left;
    }
}

static int by_worth(const void *a, const void *b)
{
    const struct mp_bound_item *p = a, *q = b;
    const __int128 left = (__int128)p->price * q->bytes, right = (__int128)q->price * p->bytes;
    return left > right ? -1 : left < right;
}

/* Knapsack problem of a boundary: each item is a storage with its bytes and its price, the multiplier. Returns an upper bound
 * on the price of items k .. n - 1 within `room` bytes. One item may be taken in part (fractional knapsack). */
static int64_t earned_in_part(const struct mp_bound_item *items, size_t k, size_t n, int64_t room)
{
    int64_t sum = 0;
    for (; k < n && room > 0; k++) {
        sum += items[k].bytes <= room ? items[k].price : (int64_t)((__int128)items[k].price * room / items[k].bytes) + 1;
        room -= items[k].bytes;
    }
    return sum;
}

/* Returns the largest total price of items (storages) that fit together in `room` bytes. The items are sorted by price per
 * byte. Depth-first branch and bound (Horowitz and Sahni 1974). If a limit of search steps is reached, returns an upper
 * bound. */
static int64_t earned_wholly(struct mp_bound_item *items, size_t n, int64_t room)
{
    int64_t best = 0, sum = 0, certain = earned_in_part(items, 0, n, room);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) items[i].taken = false;
    for (int step = 0; step < BOUND_KNAPSACK_STEPS; step++) {
        if (k < n && sum + earned_in_part(items, k, n, room) > best) {
            items[k].taken = items[k].bytes <= room;
            if (items[k].taken) {
                room -= items[k].bytes;
                sum += items[k].price;
            }
            k++;
            continue;
        }
        if (sum > best) best = sum;
        while (k > 0 && !items[k - 1].taken) k--;
        if (!k) return best;
        items[k - 1].taken = false;
        room += items[k - 1].bytes;
        sum -= items[k - 1].price;
    }
    return certain;
}

/* Returns the largest sum of multipliers, in scaled ticks, of storages that fit together in the free memory of boundary i.
 * INT64_MAX: the storages that are decided to be live do not fit. */
static int64_t most_earned(const mp_bound_overlap *o, int i)
{
    int64_t room = o->free_bytes[i], sum = 0;
    size_t n = 0;
    for (size_t s = 0; s < o->n_storages; s++) {
        const unsigned char decision = o->decision[(size_t)i * o->n_storages + s];
        struct mp_bound_item item = {0, o->bytes[(size_t)i * o->n_storages + s], false};
        if (item.bytes <= 0 || decision == MP_BOUND_NOT_LIVE) continue;
        for (int p = 0; p < o->n_pairs; p++) {
            if (o->pairs[p].from == i) item.price += o->live[(size_t)p * o->n_storages + s];
            if (o->pairs[p].to == i) item.price -= o->reward[(size_t)p * o->n_storages + s];
        }
        if (decision == MP_BOUND_LIVE) {
            room -= item.bytes;
            sum += item.price;
        } else if (item.price > 0) {
            o->items[n++] = item;
        }
    }
    if (room < 0) return INT64_MAX;
    qsort(o->items, n, sizeof *o->items, by_worth);
    return sum + earned_wholly(o->items, n, room);
}

/* Applies the decisions about storages at a boundary to an interval that starts there. A storage that is decided not to be live
 * is barred. A storage that is decided to be live is not restricted here, because its cost is paid at the boundary. A storage
 * that represents two storages is not restricted either. */
static void apply_decisions(const mp_bound_overlap *o, int boundary)
{
    for (size_t s = 0; s < o->n_storages; s++) {
        const size_t place = (size_t)boundary * o->n_storages + s;
        o->x->barred[s] = o->decision[place] == MP_BOUND_NOT_LIVE && o->bytes[place] > 0 && !o->x->covers_two[s];
    }
}

int64_t mp_bound_overlap_value(mp_bound_overlap *o)
{
    mp_bound_interval *x = o->x;
    int64_t sum = 0;
    for (int i = 0; i < o->n; i++) {
        o->earned[i] = most_earned(o, i);
        if (o->earned[i] == INT64_MAX) return INT64_MAX;
        sum -= o->earned[i];
    }
    for (size_t v = 0; v < o->n_nodes; v++) mp_bound_overlap_share_out(o, v);
    for (int p = 0; p < o->n_pairs; p++) {
        const mp_bound_pair pair = o->pairs[p];
        x->live_multiplier = o->live + (size_t)p * o->n_storages;
        x->reward = o->reward + (size_t)p * o->n_storages;
        x->run_ticks = o->run + (size_t)p * o->n_nodes;
        mp_bound_interval_start(x, o->nodes[pair.from]);
        mp_bound_interval_end(x, pair.to < o->n ? o->nodes[pair.to] : -1);
        apply_decisions(o, pair.from);
        sum += mp_bound_interval_at_multipliers(x);
    }
    x->live_multiplier = x->reward = x->run_ticks = NULL;
    memset(x->barred, false, o->n_storages * sizeof *x->barred);
    return sum;
}
