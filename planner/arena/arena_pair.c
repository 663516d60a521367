/* arena_pair.c - offsets in one arena for two plans that repeat their steps at the same time (lock-step). Time is a circle,
 * because both plans start again after a common period.
 *
 * The circle is divided into slots. In each slot both plans are at one of their steps. A new slot begins where a step of
 * either plan begins. Steps of zero ticks have their own slots. Two items whose steps overlap in time have a common slot.
 * Items without a common slot can therefore share memory. This also holds if the steps run one by one in slot order. */
#include <string.h>

#include "memplan/arena.h"
#include "planner/arena/arena_items.h"

/* The steps of one of the two plans, in the order in which they begin within the common period. */
typedef struct circle {
    size_t n;       /* number of steps, plus one if the plan is shorter than the period and waits for its end */
    int *order;     /* the steps */
    int64_t *times; /* per step: the time in ticks at which it begins, in [0, period) */
    /* per step: the first time slot in which it runs; slot[n]: the slot of step 0, at which the last step ends */
    int *slot;
} circle;

static mp_status make_circle(const mp_arena_half *half, int64_t delay, int64_t period, mp_pool *pool, circle *c, mp_error *err)
{
    const size_t n_steps = half->plan->n_steps;
    const int64_t *starts = half->starts;
    for (size_t t = 0; t <= n_steps; t++)
        MP_ENSURE(starts[t] >= 0 && starts[t] <= period && (!t || starts[t] >= starts[t - 1]), err, MP_INVALID,
                  "step %zu begins at %lld, which is before the previous step or after the period of %lld", t,
                  (long long)starts[t], (long long)period);
    c->n = n_steps + (starts[n_steps] < period);
    c->order = mp_pool_alloc(pool, c->n, sizeof *c->order);
    c->times = mp_pool_alloc(pool, c->n, sizeof *c->times);
    c->slot = mp_pool_alloc(pool, n_steps + 2, sizeof *c->slot);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for the arena of %zu steps", n_steps);
    /* with the plan's delay, the steps from `first` on begin after the end of the period; on the circle they come at its
     * begin */
    size_t first = 0, at = 0;
    while (first < c->n && starts[first] + delay < period) first++;
    for (size_t t = first; t < c->n; t++) {
        c->order[at] = (int)t;
        c->times[at++] = starts[t] + delay - period;
    }
    for (size_t t = 0; t < first; t++) {
        c->order[at] = (int)t;
        c->times[at++] = starts[t] + delay;
    }
    return MP_OK;
}

/* Numbers the slots, and stores the first slot of every step. Returns the number of slots. If several steps of one plan begin
 * at the same time, only the last of them shares its slot with a step of the other plan. */
static int cut_slots(circle c[2])
{
    size_t at[2] = {0, 0};
    int n = 0;
    while (at[0] < c[0].n || at[1] < c[1].n) {
        int64_t now = INT64_MAX;
        int last[2] = {-1, -1};
        for (int j = 0; j < 2; j++)
            if (at[j] < c[j].n && c[j].times[at[j]] < now) now = c[j].times[at[j]];
        for (int j = 0; j < 2; j++)
            for (; at[j] < c[j].n && c[j].times[at[j]] == now; at[j]++) {
                if (last[j] >= 0) c[j].slot[last[j]] = n++;
                last[j] = c[j].order[at[j]];
            }
        for (int j = 0; j < 2; j++)
            if (last[j] >= 0) c[j].slot[last[j]] = n;
        n++;
    }
    for (int j = 0; j < 2; j++) c[j].slot[c[j].n] = c[j].slot[0];
    return n;
}

/* Converts the lifetimes of an item's pieces from steps to slots, and sorts the pieces by time. A piece that crosses the end of
 * the circle is split in two. */
static void put_item(const mp_arena_item *from, const mp_pack_piece *steps, const circle *c, int n_slots, mp_arena_item *to,
                     mp_arena_problem *x, mp_pack_piece *pieces)
{
    *to = (mp_arena_item){.size = from->size, .piece = (int)x->n_pieces};
    /* round 0 adds the pieces that cross the end of the time circle or begin after it, because they continue at its begin */
    for (int round = 0; round < 2; round++)
        for (int k = 0; k < from->n_pieces; k++) {
            const mp_pack_piece *p = &steps[from->piece + k];
            const int begin = c->slot[p->begin], end = c->slot[p->end];
            const bool wraps = begin >= end, is_behind = begin < c->slot[0];
            mp_pack_piece put = {.begin = begin, .end = wraps ? n_slots : end, .size = p->size};
            if (wraps && !round) put = (mp_pack_piece){.begin = 0, .end = end, .size = p->size};
            if ((!wraps && is_behind != !round) || put.begin >= put.end) continue;
            pieces[x->n_pieces++] = put;
            to->n_pieces++;
        }
    to->begin = (int)pieces[to->piece].begin;
    to->end = (int)pieces[x->n_pieces - 1].end;
}

mp_status mp_arena_layout_pair(const mp_arena_half halves[2], int64_t period, int64_t delay, int64_t capacity_bytes,
                               mp_arena_pair *out, mp_error *err)
{
    MP_CLEARED_BY(mp_arena_items_clear) mp_arena_items first = {0};
    MP_CLEARED_BY(mp_arena_items_clear) mp_arena_items second = {0};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    mp_arena_items *const items[2] = {&first, &second};
    mp_arena_problem own[2] = {{0}, {0}}, x = {0};
    circle circles[2];
    const int64_t one = halves[0].graph->alignment, other = halves[1].graph->alignment, alignment = one > other ? one : other;
    MP_ENSURE(delay >= 0 && delay < period && alignment % one == 0 && alignment % other == 0, err, MP_INVALID,
              "a delay of %lld in a period of %lld, with alignments of %lld and %lld bytes", (long long)delay,
              (long long)period, (long long)one, (long long)other);
    size_t n_pieces = 0;
    for (int j = 0; j < 2; j++) {
        MP_CHECK(mp_arena_items_of(halves[j].graph, halves[j].plan, MP_TIER_DEVICE, alignment, items[j], &own[j], err));
        MP_CHECK(make_circle(&halves[j], j ? delay : 0, period, pool, &circles[j], err));
        x.n += own[j].n;
        n_pieces += own[j].n_pieces + own[j].n; /* at most one piece of an item crosses the end of the time circle */
        x.beside += own[j].beside;
    }
    x.n_steps = (size_t)cut_slots(circles);
    x.items = mp_pool_alloc(pool, x.n, sizeof *x.items);
    mp_pack_piece *pieces = mp_pool_alloc(pool, n_pieces, sizeof *pieces);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for the arena of %zu instances", x.n);
    x.pieces = pieces;
    x.wanted = capacity_bytes / alignment;
    for (int j = 0, n = 0; j < 2; j++)
        for (size_t k = 0; k < own[j].n; k++)
            put_item(&own[j].items[k], own[j].pieces, &circles[j], (int)x.n_steps, &x.items[n++], &x, pieces);
    MP_CHECK(mp_arena_search(&x, err));
    MP_CLEARED_BY(mp_arena_pair_free)
    mp_arena_pair found = {.arena_bytes = x.height * alignment, .bound_bytes = x.bound * alignment};
    MP_CHECK(mp_arena_items_place(&first, halves[0].plan, x.items, &found.layouts[0], err));
    MP_CHECK(mp_arena_items_place(&second, halves[1].plan, x.items + own[0].n, &found.layouts[1], err));
    *out = found;
    found = (mp_arena_pair){0};
    return MP_OK;
}

void mp_arena_pair_free(mp_arena_pair *pair)
{
    for (int j = 0; j < 2; j++) mp_free(pair->layouts[j].places);
    *pair = (mp_arena_pair){0};
}
