/* arena_fit.c - the orders in which items are placed, and the search around them. */
#include "planner/arena/arena_fit.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "planner/arena/arena_exact.h"
#include "planner/arena/arena_index.h"
#include "planner/arena/arena_place.h"
#include "planner/math/splitmix.h"

enum {
    WORK = 200000000, /* how many pairs of items are looked at, about */
    MOVES = 3000,     /* how many changes to the order are tried */
    IN_VAIN = 600,    /* as many of them in a row without a lower height end the search */
};

typedef struct key {
    double major, minor;
    int item;
} key;

static int by_key(const void *a, const void *b)
{
    const key *x = a, *y = b;
    if (x->major != y->major) return x->major > y->major ? -1 : 1;
    if (x->minor != y->minor) return x->minor > y->minor ? -1 : 1;
    return x->item - y->item;
}

typedef struct fitter {
    mp_fitting *fitting;
    mp_placer *placer;
    key *keys;
    enum mp_placing best_placing;   /* with best_order */
    int *order, *best_order, *kept; /* order: of the present attempt; kept: of the walk through orders */
    int64_t *best_offsets, *kept_offsets;
    int64_t *live, *crowd; /* per step: what lives there; per item: the most that lives at one of its steps */
    int64_t work;
    int fullest;
} fitter;

/* ---- the lower bound ---- */

static void measure(fitter *f)
{
    const mp_fitting *fit = f->fitting;
    for (size_t k = 0; k < fit->n; k++)
        for (int p = 0; p < fit->items[k].n_pieces; p++) {
            const mp_piece *piece = &fit->pieces[fit->items[k].piece + p];
            f->live[piece->first] += piece->size;
            f->live[piece->last + 1] -= piece->size;
        }
    for (size_t t = 1; t < fit->n_steps; t++) f->live[t] += f->live[t - 1];
    for (size_t t = 0; t < fit->n_steps; t++)
        if (f->live[t] > f->live[f->fullest]) f->fullest = (int)t;
    f->fitting->bound = fit->n_steps ? f->live[f->fullest] : 0;
}

/* The highest live[t] of each item's life, by halves: highest[t] covers `width` steps from t on, and the width doubles. */
static void measure_crowds(fitter *f, int64_t *highest)
{
    const mp_fitting *fit = f->fitting;
    memcpy(highest, f->live, fit->n_steps * sizeof *highest);
    for (size_t width = 1; width <= fit->n_steps; width *= 2) {
        for (size_t k = 0; k < fit->n; k++) {
            const mp_item *x = &fit->items[k];
            const size_t length = (size_t)(x->last - x->first) + 1;
            if (length < width || length >= 2 * width) continue;
            const int64_t a = highest[x->first], b = highest[(size_t)x->last + 1 - width];
            f->crowd[k] = a > b ? a : b;
        }
        for (size_t t = 0; t + width < fit->n_steps; t++)
            if (highest[t + width] > highest[t]) highest[t] = highest[t + width];
    }
}

/* ---- orders ---- */

enum rule { BY_LIFE, BY_SIZE, BY_AREA, FULLEST_BY_LIFE, FULLEST_BY_SIZE, BY_CROWD, BY_START, BY_END, N_RULES };

static void sort_by(fitter *f, enum rule rule, int *order)
{
    const mp_fitting *fit = f->fitting;
    for (size_t k = 0; k < fit->n; k++) {
        const mp_item *x = &fit->items[k];
        const double size = (double)x->size, life = x->last - x->first + 1;
        const bool at_fullest = x->first <= f->fullest && f->fullest <= x->last;
        key *o = &f->keys[k];
        switch (rule) {
        case BY_LIFE:
            *o = (key){life, size, (int)k};
            break;
        case BY_SIZE:
            *o = (key){size, life, (int)k};
            break;
        case FULLEST_BY_LIFE: /* the others count as shorter than a step */
            *o = (key){at_fullest ? life : -1 / (size + 1), size, (int)k};
            break;
        case FULLEST_BY_SIZE:
            *o = (key){at_fullest ? 1 : 0, size, (int)k};
            break;
        case BY_CROWD:
            *o = (key){(double)f->crowd[k], size * life, (int)k};
            break;
        case BY_START:
            *o = (key){-(double)x->first, life, (int)k};
            break;
        case BY_END:
            *o = (key){(double)x->last, life, (int)k};
            break;
        default:
            *o = (key){size * life, size, (int)k};
        }
    }
    qsort(f->keys, fit->n, sizeof *f->keys, by_key);
    for (size_t k = 0; k < fit->n; k++) order[k] = f->keys[k].item;
}

static bool settled(const fitter *f)
{
    return f->fitting->height <= f->fitting->bound || f->work > WORK;
}

/* Keeps what an attempt came to, if it is lower than anything before. */
static void judge(fitter *f, enum mp_placing placing, int64_t height)
{
    const size_t n = f->fitting->n;
    if (height >= f->fitting->height) return;
    f->fitting->height = height;
    f->best_placing = placing;
    for (size_t k = 0; k < n; k++) f->best_offsets[k] = f->fitting->items[k].offset;
    memcpy(f->best_order, f->order, n * sizeof *f->order);
}

static bool is_large(const fitter *f)
{
    return f->fitting->n > MP_ARENA_UNINDEXED;
}

/* Of many items the orders that do best, and no other way to place them. */
static void try_orders_of_many(fitter *f)
{
    const enum rule rules[] = {BY_SIZE, BY_LIFE, BY_AREA, BY_CROWD};
    for (size_t k = 0; k < sizeof rules / sizeof *rules && !settled(f); k++) {
        sort_by(f, rules[k], f->order);
        judge(f, MP_FIRST_GAP, mp_place(f->placer, f->order, MP_FIRST_GAP, f->fitting->height, &f->work));
    }
}

static void try_orders(fitter *f)
{
    for (int placing = 0; placing < MP_N_PLACINGS; placing++)
        for (int rule = 0; rule < N_RULES && !settled(f); rule++) {
            sort_by(f, (enum rule)rule, f->order);
            judge(f, (enum mp_placing)placing,
                  mp_place(f->placer, f->order, (enum mp_placing)placing, f->fitting->height, &f->work));
        }
}

/* ---- small changes to the best order ---- */

static size_t below(uint64_t *state, size_t n)
{
    return (size_t)(mp_splitmix_next(state) % n);
}

/* The rank of an item that reaches the height in the order that is kept; one of them by chance. */
static size_t find_top(const fitter *f, int64_t height, uint64_t *random)
{
    size_t n_found = 0, found = 0;
    for (size_t k = 0; k < f->fitting->n; k++) {
        const int item = f->kept[k];
        if (f->kept_offsets[item] + f->fitting->items[item].size >= height && below(random, ++n_found) == 0) found = k;
    }
    return found;
}

static void keep(fitter *f)
{
    memcpy(f->kept, f->order, f->fitting->n * sizeof *f->kept);
    for (size_t k = 0; k < f->fitting->n; k++) f->kept_offsets[k] = f->fitting->items[k].offset;
}

static void move_up(int *order, size_t from, size_t to)
{
    const int item = order[from];
    memmove(order + to + 1, order + to, (from - to) * sizeof *order);
    order[to] = item;
}

/* The order of the best offsets: placed by it, nothing lies higher than it did. */
static void sort_by_offset(fitter *f, int *order)
{
    for (size_t k = 0; k < f->fitting->n; k++)
        f->keys[k] = (key){-(double)f->best_offsets[k], (double)f->fitting->items[k].size, (int)k};
    qsort(f->keys, f->fitting->n, sizeof *f->keys, by_key);
    for (size_t k = 0; k < f->fitting->n; k++) order[k] = f->keys[k].item;
}

/* A walk from the best order, or from that of the best offsets: what lies on top comes earlier, and now and then another item
 * does. What is as low as before is kept, so that the walk crosses plains. */
static void walk(fitter *f, enum mp_placing placing, bool from_offsets)
{
    const size_t n = f->fitting->n;
    uint64_t random = 1;
    int64_t height;
    if (from_offsets)
        sort_by_offset(f, f->order);
    else
        memcpy(f->order, f->best_order, n * sizeof *f->order);
    height = mp_place(f->placer, f->order, placing, INT64_MAX, &f->work);
    judge(f, placing, height);
    keep(f);
    for (int m = 0, in_vain = 0; m < MOVES && in_vain < IN_VAIN && n > 1 && !settled(f); m++, in_vain++) {
        const size_t top = find_top(f, height, &random);
        memcpy(f->order, f->kept, n * sizeof *f->order);
        if (top && below(&random, 4)) move_up(f->order, top, below(&random, 3) ? below(&random, top) : 0);
        if (below(&random, 2)) {
            const size_t a = below(&random, n), b = below(&random, n);
            move_up(f->order, a > b ? a : b, a > b ? b : a);
        }
        const int64_t now = mp_place(f->placer, f->order, placing, height + 1, &f->work);
        if (now > height) continue;
        if (now < height) in_vain = 0;
        height = now;
        keep(f);
        judge(f, placing, height);
    }
}

/* The packer's search from the best offsets so far. */
static mp_status search(fitter *f, mp_error *err)
{
    mp_status st = MP_OK;
    mp_fitting *fit = f->fitting;
    const int64_t height = fit->height;
    if (height <= fit->bound) return MP_OK;
    for (size_t k = 0; k < fit->n; k++) fit->items[k].offset = f->best_offsets[k];
    MP_TRY(mp_fit_exactly(fit, err));
    if (fit->height == height) return MP_OK;
    for (size_t k = 0; k < fit->n; k++) f->best_offsets[k] = fit->items[k].offset;
    sort_by_offset(f, f->best_order);
done:
    return st;
}

mp_status mp_fit(mp_fitting *fitting, mp_error *err)
{
    mp_status st = MP_OK;
    const size_t n = fitting->n;
    fitter f = {.fitting = fitting};
    int64_t *highest = mp_alloc(fitting->n_steps + 1, sizeof *highest);
    fitting->height = INT64_MAX;
    f.keys = mp_alloc(n, sizeof *f.keys);
    f.order = mp_alloc(3 * n, sizeof *f.order);
    f.best_offsets = mp_alloc(2 * n, sizeof *f.best_offsets);
    f.live = mp_alloc(fitting->n_steps + 1, sizeof *f.live);
    f.crowd = mp_alloc(n, sizeof *f.crowd);
    f.placer = mp_placer_new(fitting);
    MP_REQUIRE(highest && f.keys && f.order && f.best_offsets && f.live && f.crowd && f.placer, err, MP_NOMEM,
               "no memory for the arena of %zu instances", n);
    f.best_order = f.order + n;
    f.kept = f.best_order + n;
    f.kept_offsets = f.best_offsets + n;
    measure(&f);
    measure_crowds(&f, highest);
    (is_large(&f) ? try_orders_of_many : try_orders)(&f);
    if (fitting->exact || !is_large(&f)) MP_TRY(search(&f, err));
    if (fitting->only_bound || is_large(&f)) f.work = WORK + 1;
    for (int k = 0, best = (int)f.best_placing; k < MP_N_PLACINGS && !settled(&f); k++)
        walk(&f, (enum mp_placing)((best + k) % MP_N_PLACINGS), false);
    for (int k = 0; k < MP_LOWEST_FIRST && !settled(&f); k++) walk(&f, (enum mp_placing)k, true);
    for (size_t k = 0; k < n; k++) fitting->items[k].offset = f.best_offsets[k];
done:
    mp_free(highest);
    mp_free(f.keys);
    mp_free(f.order);
    mp_free(f.best_offsets);
    mp_free(f.live);
    mp_free(f.crowd);
    mp_placer_free(f.placer);
    return st;
}
