/* arena_search.c - the orders in which items are placed, and the local search around the best of them. */
#include "planner/arena/arena_search.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "planner/arena/arena_exact.h"
#include "planner/arena/arena_index.h"
#include "planner/arena/arena_place.h"
#include "planner/math/splitmix.h"
#include "planner/math/tuning.h"

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

typedef struct search {
    mp_arena_problem *problem;
    mp_arena_placer *placer;
    key *keys;
    mp_arena_rule best_rule;        /* with best_order */
    int *order, *best_order, *kept; /* order: of the present attempt; kept: of the local search */
    int64_t *best_offsets, *kept_offsets;
    int64_t *live, *crowd; /* per step: live bytes, in units; per item: the most of them at one of its steps */
    int64_t work;
    int fullest;
} search;

/* ---- the lower bound ---- */

static void measure(search *f)
{
    const mp_arena_problem *problem = f->problem;
    for (size_t k = 0; k < problem->n; k++)
        for (int p = 0; p < problem->items[k].n_pieces; p++) {
            const mp_pack_piece *piece = &problem->pieces[problem->items[k].piece + p];
            f->live[piece->begin] += piece->size;
            f->live[piece->end] -= piece->size;
        }
    for (size_t t = 1; t < problem->n_steps; t++) f->live[t] += f->live[t - 1];
    for (size_t t = 0; t < problem->n_steps; t++)
        if (f->live[t] > f->live[f->fullest]) f->fullest = (int)t;
    f->problem->bound = problem->n_steps ? f->live[f->fullest] : 0;
}

/* The highest live[t] of each item's life, by halves: highest[t] covers `width` steps from t on, and the width doubles. */
static void measure_crowds(search *f, int64_t *highest)
{
    const mp_arena_problem *problem = f->problem;
    memcpy(highest, f->live, problem->n_steps * sizeof *highest);
    for (size_t width = 1; width <= problem->n_steps; width *= 2) {
        for (size_t k = 0; k < problem->n; k++) {
            const mp_arena_item *x = &problem->items[k];
            const size_t length = (size_t)(x->end - x->begin);
            if (length < width || length >= 2 * width) continue;
            const int64_t a = highest[x->begin], b = highest[(size_t)x->end - width];
            f->crowd[k] = a > b ? a : b;
        }
        for (size_t t = 0; t + width < problem->n_steps; t++)
            if (highest[t + width] > highest[t]) highest[t] = highest[t + width];
    }
}

/* ---- orders ---- */

enum sorting { BY_LIFE, BY_SIZE, BY_AREA, FULLEST_BY_LIFE, FULLEST_BY_SIZE, BY_CROWD, BY_BEGIN, BY_END, N_SORTINGS };

static void sort_by(search *f, enum sorting sorting, int *order)
{
    const mp_arena_problem *problem = f->problem;
    for (size_t k = 0; k < problem->n; k++) {
        const mp_arena_item *x = &problem->items[k];
        const double size = (double)x->size, life = x->end - x->begin;
        const bool at_fullest = x->begin <= f->fullest && f->fullest < x->end;
        key *o = &f->keys[k];
        switch (sorting) {
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
        case BY_BEGIN:
            *o = (key){-(double)x->begin, life, (int)k};
            break;
        case BY_END:
            *o = (key){(double)x->end, life, (int)k};
            break;
        default:
            *o = (key){size * life, size, (int)k};
        }
    }
    qsort(f->keys, problem->n, sizeof *f->keys, by_key);
    for (size_t k = 0; k < problem->n; k++) order[k] = f->keys[k].item;
}

/* Whether the search has ended early. */
static bool stopped(const mp_arena_problem *problem)
{
    if (!problem->stop || problem->height == INT64_MAX) return false;
    return problem->height <= problem->wanted || problem->stop(problem->data);
}

static bool settled(const search *f)
{
    return f->problem->height <= f->problem->bound || f->work > MP_ARENA_WORK || stopped(f->problem);
}

/* Keeps the offsets of an attempt if they are lower than all before. */
static void judge(search *f, mp_arena_rule rule, int64_t height)
{
    const size_t n = f->problem->n;
    if (height >= f->problem->height) return;
    f->problem->height = height;
    f->best_rule = rule;
    for (size_t k = 0; k < n; k++) f->best_offsets[k] = f->problem->items[k].offset;
    memcpy(f->best_order, f->order, n * sizeof *f->order);
}

static bool is_large(const search *f)
{
    return f->problem->n > MP_ARENA_UNINDEXED;
}

/* For many items: the orders that do best, and first fit alone. */
static void try_orders_of_many(search *f)
{
    const enum sorting sortings[] = {BY_SIZE, BY_LIFE, BY_AREA, BY_CROWD};
    for (size_t k = 0; k < sizeof sortings / sizeof *sortings && !settled(f); k++) {
        sort_by(f, sortings[k], f->order);
        judge(f, MP_ARENA_FIRST_FIT, mp_arena_place(f->placer, f->order, MP_ARENA_FIRST_FIT, f->problem->height, &f->work));
    }
}

static void try_orders(search *f)
{
    for (int rule = 0; rule < MP_ARENA_N_RULES; rule++)
        for (int sorting = 0; sorting < N_SORTINGS && !settled(f); sorting++) {
            sort_by(f, (enum sorting)sorting, f->order);
            judge(f, (mp_arena_rule)rule,
                  mp_arena_place(f->placer, f->order, (mp_arena_rule)rule, f->problem->height, &f->work));
        }
}

/* ---- small changes to the best order ---- */

static size_t below(uint64_t *state, size_t n)
{
    return (size_t)(mp_splitmix_next(state) % n);
}

/* The rank, in the kept order, of an item that reaches the height; one of them at random. */
static size_t find_top(const search *f, int64_t height, uint64_t *random)
{
    size_t n_found = 0, found = 0;
    for (size_t k = 0; k < f->problem->n; k++) {
        const int item = f->kept[k];
        if (f->kept_offsets[item] + f->problem->items[item].size >= height && below(random, ++n_found) == 0) found = k;
    }
    return found;
}

static void keep(search *f)
{
    memcpy(f->kept, f->order, f->problem->n * sizeof *f->kept);
    for (size_t k = 0; k < f->problem->n; k++) f->kept_offsets[k] = f->problem->items[k].offset;
}

static void move_up(int *order, size_t from, size_t to)
{
    const int item = order[from];
    memmove(order + to + 1, order + to, (from - to) * sizeof *order);
    order[to] = item;
}

/* The order of the best offsets: by first fit in this order, no item gets a higher offset than it has. */
static void sort_by_offset(search *f, int *order)
{
    for (size_t k = 0; k < f->problem->n; k++)
        f->keys[k] = (key){-(double)f->best_offsets[k], (double)f->problem->items[k].size, (int)k};
    qsort(f->keys, f->problem->n, sizeof *f->keys, by_key);
    for (size_t k = 0; k < f->problem->n; k++) order[k] = f->keys[k].item;
}

/* Local search from the best order, or from that of the best offsets: an item on top comes earlier, and now and then another
 * one does. An order as low as the kept one replaces it, so that the search crosses plateaus. */
static void improve(search *f, mp_arena_rule rule, bool from_offsets)
{
    const size_t n = f->problem->n;
    uint64_t random = 1;
    int64_t height;
    if (from_offsets)
        sort_by_offset(f, f->order);
    else
        memcpy(f->order, f->best_order, n * sizeof *f->order);
    height = mp_arena_place(f->placer, f->order, rule, INT64_MAX, &f->work);
    judge(f, rule, height);
    keep(f);
    for (int m = 0, in_vain = 0; m < MP_ARENA_MOVES && in_vain < MP_ARENA_MOVES_IN_VAIN && n > 1 && !settled(f);
         m++, in_vain++) {
        const size_t top = find_top(f, height, &random);
        memcpy(f->order, f->kept, n * sizeof *f->order);
        if (top && below(&random, 4)) move_up(f->order, top, below(&random, 3) ? below(&random, top) : 0);
        if (below(&random, 2)) {
            const size_t a = below(&random, n), b = below(&random, n);
            move_up(f->order, a > b ? a : b, a > b ? b : a);
        }
        const int64_t now = mp_arena_place(f->placer, f->order, rule, height + 1, &f->work);
        if (now > height) continue;
        if (now < height) in_vain = 0;
        height = now;
        keep(f);
        judge(f, rule, height);
    }
}

/* ---- the packer's search ---- */

static void put_best(const search *f)
{
    for (size_t k = 0; k < f->problem->n; k++) f->problem->items[k].offset = f->best_offsets[k];
}

/* Takes over what it has found, if that is lower than `height`. */
static void take_best(search *f, int64_t height)
{
    if (f->problem->height >= height) return;
    for (size_t k = 0; k < f->problem->n; k++) f->best_offsets[k] = f->problem->items[k].offset;
    sort_by_offset(f, f->best_order);
}

static mp_status search_within(search *f, int64_t capacity, int part, mp_error *err)
{
    mp_status st = MP_OK;
    const int64_t height = f->problem->height;
    put_best(f);
    MP_TRY(mp_arena_exact_within(f->problem, capacity, part, err));
    take_best(f, height);
done:
    return st;
}

/* Little room beside what lives makes it much easier: a search within what is wanted, or a thousandth above the bound, and
 * where that fails shorter ones half as far down. */
static mp_status search_nearby(search *f, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_arena_problem *problem = f->problem;
    const int64_t near = problem->bound + problem->bound / MP_ARENA_NEAR;
    if (problem->wanted >= problem->bound && problem->wanted < problem->height)
        return search_within(f, problem->wanted, 1, err);
    if (problem->height <= near) return MP_OK;
    MP_TRY(search_within(f, near, 1, err));
    for (int part = 2; part <= MP_ARENA_NEAR_TIMES && problem->height > near; part *= 2)
        MP_TRY(search_within(f, near + (problem->height - near) / 2, part, err));
done:
    return st;
}

/* Lower and lower from the best offsets so far. */
static mp_status search_exactly(search *f, mp_error *err)
{
    mp_status st = MP_OK;
    const int64_t height = f->problem->height;
    if (height <= f->problem->bound) return MP_OK;
    put_best(f);
    MP_TRY(mp_arena_exact(f->problem, err));
    take_best(f, height);
done:
    return st;
}

mp_status mp_arena_search(mp_arena_problem *problem, mp_error *err)
{
    mp_status st = MP_OK;
    const size_t n = problem->n;
    search f = {.problem = problem};
    int64_t *highest = mp_alloc(problem->n_steps + 1, sizeof *highest);
    problem->height = INT64_MAX;
    f.keys = mp_alloc(n, sizeof *f.keys);
    f.order = mp_alloc(3 * n, sizeof *f.order);
    f.best_offsets = mp_alloc(2 * n, sizeof *f.best_offsets);
    f.live = mp_alloc(problem->n_steps + 1, sizeof *f.live);
    f.crowd = mp_alloc(n, sizeof *f.crowd);
    f.placer = mp_arena_placer_new(problem);
    MP_REQUIRE(highest && f.keys && f.order && f.best_offsets && f.live && f.crowd && f.placer, err, MP_NOMEM,
               "no memory for the arena of %zu instances", n);
    f.best_order = f.order + n;
    f.kept = f.best_order + n;
    f.kept_offsets = f.best_offsets + n;
    measure(&f);
    measure_crowds(&f, highest);
    (is_large(&f) ? try_orders_of_many : try_orders)(&f);
    if (!problem->only_bound && !is_large(&f) && !stopped(problem)) MP_TRY(search_nearby(&f, err));
    if (problem->exact || (!is_large(&f) && !stopped(problem))) MP_TRY(search_exactly(&f, err));
    if (problem->only_bound || is_large(&f)) f.work = MP_ARENA_WORK + 1;
    for (int k = 0, best = (int)f.best_rule; k < MP_ARENA_N_RULES && !settled(&f); k++)
        improve(&f, (mp_arena_rule)((best + k) % MP_ARENA_N_RULES), false);
    for (int k = 0; k < MP_ARENA_LOWEST_FIRST && !settled(&f); k++) improve(&f, (mp_arena_rule)k, true);
    put_best(&f);
done:
    mp_free(highest);
    mp_free(f.keys);
    mp_free(f.order);
    mp_free(f.best_offsets);
    mp_free(f.live);
    mp_free(f.crowd);
    mp_arena_placer_free(f.placer);
    return st;
}
