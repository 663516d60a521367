/* bound_overlap.c - the bound that prices give.
 *
 * Let H be what is held at a boundary, R what runs again between it and the next, C what runs in an interval: only what is in
 * an R of it. If of the ticks of a run each interval that contains it gets a share, the longer ones none below zero, and the
 * shortest what is left, be that more or less than zero, then the ticks of all R are at least the sum over intervals of (share
 * * C). Whoever holds a storage at the start of an interval pays there and is paid as much where H is chosen; whoever has it
 * there in an interval is paid what H at its end pays. So the sum of all intervals, each at its cheapest, and of all choices of
 * H within the room, each at its cheapest, is a bound.
 */
#include "planner/bound/overlap/bound_overlap.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "planner/math/tuning.h"

struct mp_bound_item {
    int64_t price, bytes;
    bool taken;
};

size_t mp_bound_overlap_place(const mp_bound_overlap *o, mp_bound_pair pair)
{
    return (size_t)(pair.from * (o->n + 1) + pair.to) * o->n_storages;
}

/* What the boundaries and all intervals between them ask for. False: not even what a node needs has room. */
static bool measure(mp_bound_overlap *o)
{
    mp_bound_interval *x = o->x;
    for (int i = 0; i < o->n; i++) {
        for (int j = i + 1; j <= o->n; j++) {
            mp_bound_interval_start(x, o->nodes[i]);
            if (j == i + 1) {
                o->room_bytes[i] = x->room_bytes;
                if (x->room_bytes < 0) return false;
                for (size_t s = 0; s < o->n_storages; s++)
                    o->bytes[(size_t)i * o->n_storages + s] = x->storage_vertex[s] < 0 ? -1 : x->bytes[s];
                for (size_t v = 0; v < o->n_nodes; v++)
                    o->ticks[(size_t)i * o->n_nodes + v] = x->order->repeatable[v] ? x->ticks[v] : 0;
            }
            mp_bound_interval_end(x, j < o->n ? o->nodes[j] : -1);
            bool *needed = o->needed + mp_bound_overlap_place(o, (mp_bound_pair){i, j});
            for (size_t s = 0; s < o->n_storages; s++) needed[s] = x->is_required[s] && !x->for_two[s];
        }
    }
    return true;
}

mp_status mp_bound_overlap_init(mp_bound_overlap *o, mp_bound_interval *x, const int *nodes, int n,
                                const mp_bound_options *options, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_graph *graph = x->order->graph;
    const size_t points = (size_t)n;
    *o = (mp_bound_overlap){.x = x, .options = options, .n = n, .n_nodes = graph->n_nodes, .n_storages = graph->n_storages};
    o->nodes = mp_alloc(points, sizeof *o->nodes);
    o->room_bytes = mp_alloc(points, sizeof *o->room_bytes);
    o->bytes = mp_alloc(points * o->n_storages, sizeof *o->bytes);
    o->ticks = mp_alloc(points * o->n_nodes, sizeof *o->ticks);
    o->needed = mp_alloc(points * (points + 1) * o->n_storages, sizeof *o->needed);
    o->fate = mp_alloc(points * o->n_storages, sizeof *o->fate);
    o->earned = mp_alloc(points, sizeof *o->earned);
    o->items = mp_alloc(o->n_storages, sizeof *o->items);
    MP_REQUIRE(o->nodes && o->room_bytes && o->bytes && o->ticks && o->needed && o->fate && o->earned && o->items, err,
               MP_NOMEM, "no memory for a bound of %zu nodes", o->n_nodes);
    memcpy(o->nodes, nodes, points * sizeof *nodes);
    if (!measure(o)) st = MP_INFEASIBLE;
done:
    return st;
}

void mp_bound_overlap_clear(mp_bound_overlap *o)
{
    mp_free(o->nodes);
    mp_free(o->room_bytes);
    mp_free(o->bytes);
    mp_free(o->ticks);
    mp_free(o->needed);
    mp_free(o->fate);
    mp_free(o->earned);
    mp_free(o->items);
    mp_free(o->pairs);
    mp_free(o->held);
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

mp_status mp_bound_overlap_make_room(mp_bound_overlap *o, mp_error *err)
{
    const size_t n = (size_t)o->n_pairs;
    mp_free(o->held);
    mp_free(o->reward);
    mp_free(o->run);
    o->held = mp_alloc(n * o->n_storages, sizeof *o->held);
    o->reward = mp_alloc(n * o->n_storages, sizeof *o->reward);
    o->run = mp_alloc(n * o->n_nodes, sizeof *o->run);
    if (o->held && o->reward && o->run) return MP_OK;
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

/* What the items from k on can earn in a room, at most one of them in part. */
static int64_t earned_in_part(const struct mp_bound_item *items, size_t k, size_t n, int64_t room)
{
    int64_t sum = 0;
    for (; k < n && room > 0; k++) {
        sum += items[k].bytes <= room ? items[k].price : (int64_t)((__int128)items[k].price * room / items[k].bytes) + 1;
        room -= items[k].bytes;
    }
    return sum;
}

/* The most that items, by worth, earn in a room, each wholly or not at all: branch and bound, depth first (Horowitz and Sahni
 * 1974). After `most` steps what is certain by then. */
static int64_t earned_wholly(struct mp_bound_item *items, size_t n, int64_t room)
{
    int64_t best = 0, sum = 0, certain = earned_in_part(items, 0, n, room);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) items[i].taken = false;
    for (int step = 0; step < MP_BOUND_KNAPSACK_STEPS; step++) {
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

/* The most that holding storages at a boundary can earn in its room; INT64_MAX: what is settled to be held has no room. */
static int64_t most_earned(const mp_bound_overlap *o, int i)
{
    int64_t room = o->room_bytes[i], sum = 0;
    size_t n = 0;
    for (size_t s = 0; s < o->n_storages; s++) {
        const unsigned char fate = o->fate[(size_t)i * o->n_storages + s];
        struct mp_bound_item item = {0, o->bytes[(size_t)i * o->n_storages + s], false};
        if (item.bytes <= 0 || fate == MP_BOUND_NOT_HELD) continue;
        for (int p = 0; p < o->n_pairs; p++) {
            if (o->pairs[p].from == i) item.price += o->held[(size_t)p * o->n_storages + s];
            if (o->pairs[p].to == i) item.price -= o->reward[(size_t)p * o->n_storages + s];
        }
        if (fate == MP_BOUND_HELD) {
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

/* What is settled of a boundary goes for an interval from it. What is held is paid for where it serves; and who stands for two
 * may be there for the other. */
static void settle(const mp_bound_overlap *o, int boundary)
{
    for (size_t s = 0; s < o->n_storages; s++) {
        const size_t place = (size_t)boundary * o->n_storages + s;
        const bool barred = o->fate[place] == MP_BOUND_NOT_HELD && o->bytes[place] > 0 && !o->x->for_two[s];
        o->x->fate[s] = barred ? MP_BOUND_NOT_HELD : MP_BOUND_OPEN;
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
        x->held_price = o->held + (size_t)p * o->n_storages;
        x->reward = o->reward + (size_t)p * o->n_storages;
        x->run_price = o->run + (size_t)p * o->n_nodes;
        mp_bound_interval_start(x, o->nodes[pair.from]);
        mp_bound_interval_end(x, pair.to < o->n ? o->nodes[pair.to] : -1);
        settle(o, pair.from);
        sum += mp_bound_interval_priced(x);
    }
    x->held_price = x->reward = x->run_price = NULL;
    memset(x->fate, MP_BOUND_OPEN, o->n_storages);
    return sum;
}
