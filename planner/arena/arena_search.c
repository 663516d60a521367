/* arena_search.c - the search for offsets of the items of one arena. It tries several orders of placement. If no result is low
 * enough, the packer's exact search (memplan/pack.h) improves the offsets, or proves that they are the lowest. */
#include "planner/arena/arena.h"

#include <stdlib.h>
#include <string.h>

#include "planner/math/tuning.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    ARENA_WORK = 200000000,   /* most pairs of items that the arena search examines, about */
    ARENA_FIRST_FIT_PART = 4, /* if the first arena that fits will do, exact searches have 1/N of their tree nodes */
};

/* Returns the sum over all steps of the number of live items that are larger than `dust`. The count stops at `most`. */
static int64_t count_live(const mp_arena_problem *x, int64_t dust, int64_t most)
{
    int64_t n = 0;
    for (size_t k = 0; k < x->n && n < most; k++)
        for (int p = x->items[k].piece; x->items[k].size > dust && p < x->items[k].piece + x->items[k].n_pieces; p++)
            n += x->pieces[p].end - x->pieces[p].begin;
    return n < most ? n : most;
}

/* Returns the largest number of search nodes that the packer may visit to place the items larger than `dust`. */
static int64_t count_nodes(const mp_arena_problem *x, int64_t dust)
{
    const int64_t n = MP_ARENA_EXACT_WORK / (count_live(x, dust, MP_ARENA_EXACT_WORK) + 1);
    return n < MP_ARENA_EXACT_NODES ? n : MP_ARENA_EXACT_NODES;
}

/* Builds the packing problem of the items larger than `dust`. */
static mp_status open_problem(const mp_arena_problem *x, int64_t dust, mp_pack_problem *problem, mp_error *err)
{
    *problem = (mp_pack_problem){.pieces = x->pieces, .n_pieces = x->n_pieces};
    problem->items = mp_alloc(x->n, sizeof *problem->items);
    MP_ENSURE(problem->items, err, MP_NOMEM, "no memory for the arena of %zu instances", x->n);
    for (size_t k = 0; k < x->n; k++)
        if (x->items[k].size > dust)
            problem->items[problem->n_items++] =
                (mp_pack_item){x->items[k].piece, x->items[k].n_pieces, 1, -1, x->items[k].offset};
    return MP_OK;
}

static void close_problem(mp_pack_problem *problem)
{
    mp_free(problem->items);
}

static void take(mp_arena_problem *x, int64_t dust, const mp_pack_problem *problem)
{
    for (size_t k = 0, j = 0; k < x->n; k++)
        if (x->items[k].size > dust) x->items[k].offset = problem->items[j++].offset;
}

/* Runs the packer's search from the present offsets, to lower the height and raise the bound. It uses the options
 * problem->exact; if NULL, the node limit depends on the size of the problem. MP_NOMEM. */
static mp_status improve_by_pack(mp_arena_problem *x, mp_error *err)
{
    const mp_pack_options bounded = {.node_limit = count_nodes(x, 0), .stop = x->stop, .data = x->data};
    MP_CLEARED_BY(close_problem) mp_pack_problem problem = {0};
    mp_pack_result result;
    if (!x->exact && bounded.node_limit < 1) return MP_OK;
    MP_CHECK(open_problem(x, 0, &problem, err));
    MP_CHECK(mp_pack_minimize(&problem, x->height, x->exact ? x->exact : &bounded, &result, err));
    take(x, 0, &problem);
    x->height = result.height;
    x->bound = result.bound;
    x->nodes += result.nodes;
    return MP_OK;
}

/* Lets the packer place only the items larger than `dust`, within a given capacity. The node limit is MP_ARENA_NEAR_TIMES /
 * part times the usual limit. Does nothing if this limit is smaller than the number of items. Sets *placed to true if these
 * items now have offsets. The caller computes the height. The bound may rise, as in improve_by_pack. MP_NOMEM. */
static mp_status place_by_pack(mp_arena_problem *x, int64_t dust, int64_t capacity, int part, bool *placed, mp_error *err)
{
    const mp_pack_options bounded = {
        .node_limit = MP_ARENA_NEAR_TIMES * count_nodes(x, dust) / part, .stop = x->stop, .data = x->data};
    MP_CLEARED_BY(close_problem) mp_pack_problem problem = {0};
    mp_pack_result result;
    *placed = false;
    MP_CHECK(open_problem(x, dust, &problem, err));
    /* the packer visits at least one search node per item, so it cannot succeed with a lower node limit */
    if (bounded.node_limit < (int64_t)problem.n_items) return MP_OK;
    MP_CHECK(mp_pack_solve(&problem, capacity, &bounded, &result, err));
    *placed = result.verdict == MP_PACK_PLACED;
    if (*placed) take(x, dust, &problem);
    if (result.bound > x->bound) x->bound = result.bound;
    x->nodes += result.nodes;
    return MP_OK;
}

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
    int *order; /* the items in the order in which the current attempt places them in the arena */
    int64_t *best_offsets;
    /* live: per step, the live bytes as a multiple of the alignment. crowd: per item, the largest live bytes of any step during
     * its lifetime */
    int64_t *live, *crowd;
    int64_t *changes; /* scratch, per step: live bytes of this step minus live bytes of the previous step */
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

/* Sets f->crowd, per item: the largest live bytes of any step of its lifetime. In each round, highest[t] is the maximum over
 * `width` steps from step t on, and `width` doubles after each round. */
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
        case FULLEST_BY_LIFE: /* FULLEST_BY_LIFE, FULLEST_BY_SIZE: items that are live at the fullest step are placed first */
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

/* True if the search for offsets must end now: `stop` returned true, or the arena's height is low enough for the caller. */
static bool stopped(const mp_arena_problem *problem)
{
    if ((!problem->stop && !problem->first_fit) || problem->height == INT64_MAX) return false;
    return problem->height <= problem->wanted || (problem->stop && problem->stop(problem->data));
}

static bool settled(const search *f)
{
    return f->problem->height <= f->problem->bound || f->work > ARENA_WORK || stopped(f->problem);
}

/* Keeps the offsets of an attempt if its height is the lowest so far. */
static void judge(search *f, int64_t height)
{
    const size_t n = f->problem->n;
    if (height >= f->problem->height) return;
    f->problem->height = height;
    for (size_t k = 0; k < n; k++) f->best_offsets[k] = f->problem->items[k].offset;
}

static bool is_large(const search *f)
{
    return f->problem->n > MP_ARENA_UNINDEXED;
}

/* For problems with many items: tries only the orders that work best, with first fit. */
static void try_orders_of_many(search *f)
{
    const enum sorting sortings[] = {BY_SIZE, BY_LIFE, BY_AREA, BY_CROWD};
    for (size_t k = 0; k < sizeof sortings / sizeof *sortings && !settled(f); k++) {
        sort_by(f, sortings[k], f->order);
        judge(f, mp_arena_place(f->placer, f->order, MP_ARENA_FIRST_FIT, f->problem->height, &f->work));
    }
}

static void try_orders(search *f)
{
    for (int rule = 0; rule < MP_ARENA_N_RULES; rule++)
        for (int sorting = 0; sorting < N_SORTINGS && !settled(f); sorting++) {
            sort_by(f, (enum sorting)sorting, f->order);
            judge(f, mp_arena_place(f->placer, f->order, (mp_arena_rule)rule, f->problem->height, &f->work));
        }
}

/* ---- the packer's search ---- */

static void put_best(const search *f)
{
    for (size_t k = 0; k < f->problem->n; k++) f->problem->items[k].offset = f->best_offsets[k];
}

/* Counts only items with sizes in (low, high]. Returns their largest live bytes at any step, as a multiple of the alignment. */
static int64_t most_live(const search *f, int64_t low, int64_t high)
{
    const mp_arena_problem *problem = f->problem;
    int64_t live = 0, most = 0;
    memset(f->changes, 0, (problem->n_steps + 1) * sizeof *f->changes);
    for (size_t k = 0; k < problem->n; k++) {
        if (problem->items[k].size <= low || problem->items[k].size > high) continue;
        for (int p = problem->items[k].piece; p < problem->items[k].piece + problem->items[k].n_pieces; p++) {
            f->changes[problem->pieces[p].begin] += problem->pieces[p].size;
            f->changes[problem->pieces[p].end] -= problem->pieces[p].size;
        }
    }
    for (size_t t = 0; t < problem->n_steps; t++) {
        live += f->changes[t];
        if (live > most) most = live;
    }
    return most;
}

/* Returns the size below which items count as dust: a power of two, or 0 if no size is suitable. The size is so small that a
 * fraction MP_ARENA_DUST_LEAVES of the free capacity remains free if all dust is stacked on top of the other items. */
static int64_t dust_size(const search *f, int64_t capacity)
{
    const int64_t least = (int64_t)(MP_ARENA_DUST_LEAVES * (double)(capacity - f->problem->bound));
    int64_t dust = 0;
    for (int64_t size = 1; size < f->problem->bound; size *= 2) {
        if (capacity - most_live(f, 0, size) - most_live(f, size, INT64_MAX) < least) break;
        dust = size;
    }
    return dust;
}

/* Places all items again. The items that are not dust are placed by first fit, in the order of their offsets, so that no offset
 * rises. Then the dust (small items) is placed. */
static void add_dust(search *f, int64_t dust)
{
    for (size_t k = 0; k < f->problem->n; k++) {
        const mp_arena_item *x = &f->problem->items[k];
        const double size = (double)x->size;
        f->keys[k] = x->size > dust ? (key){1, -(double)x->offset, (int)k} : (key){0, size, (int)k};
    }
    qsort(f->keys, f->problem->n, sizeof *f->keys, by_key);
    for (size_t k = 0; k < f->problem->n; k++) f->order[k] = f->keys[k].item;
    judge(f, mp_arena_place(f->placer, f->order, MP_ARENA_FIRST_FIT, f->problem->height, &f->work));
}

/* Searches for offsets within one capacity. Small items ("dust") are first left out, because they fit on top of the other items
 * with little extra memory. The search then has fewer items and fewer sizes. It is repeated with several limits of dust,
 * because the set of remaining items decides which placements are tried first. */
static mp_status search_within(search *f, int64_t capacity, int part, mp_error *err)
{
    const mp_arena_problem *problem = f->problem;
    int64_t dust = dust_size(f, capacity);
    const int n_tries = dust ? MP_ARENA_DUST_TRIES : 1;
    for (int k = 0; k < n_tries && problem->height > capacity && !stopped(problem); k++, dust /= MP_ARENA_DUST_STEP) {
        bool placed;
        MP_CHECK(place_by_pack(f->problem, dust, capacity - most_live(f, 0, dust), part * n_tries, &placed, err));
        if (placed) add_dust(f, dust);
        if (!dust) break;
    }
    return MP_OK;
}

/* A search is much easier if some memory stays free besides the live bytes. Tries the height `wanted`, which is low enough for
 * the caller; without `wanted`, a height a thousandth above the live bytes. If that fails, makes shorter searches at heights
 * between this height and the height found so far. */
static mp_status search_nearby(search *f, mp_error *err)
{
    const mp_arena_problem *problem = f->problem;
    const int64_t near = problem->bound + (problem->bound + problem->beside) / MP_ARENA_NEAR;
    const int part = problem->first_fit ? ARENA_FIRST_FIT_PART : 1;
    if (problem->wanted >= problem->bound && problem->wanted < problem->height) {
        MP_CHECK(search_within(f, problem->wanted, part, err));
        if (problem->height <= problem->wanted) return MP_OK;
    }
    const int64_t least = problem->first_fit ? problem->wanted : near;
    if (problem->height > least && problem->wanted != least) MP_CHECK(search_within(f, least, 1, err));
    for (int64_t k = 0, low = least; k < MP_ARENA_HALVES && low < problem->height; k++) {
        const int64_t capacity = low + (problem->height - low) / 2;
        MP_CHECK(search_within(f, capacity, part * 2 * MP_ARENA_HALVES, err));
        if (problem->height > capacity) low = capacity + 1;
    }
    return MP_OK;
}

/* Searches for lower heights, starting from the best offsets so far. */
static mp_status search_exactly(search *f, mp_error *err)
{
    if (f->problem->height <= f->problem->bound) return MP_OK;
    put_best(f);
    MP_CHECK(improve_by_pack(f->problem, err));
    for (size_t k = 0; k < f->problem->n; k++) f->best_offsets[k] = f->problem->items[k].offset;
    return MP_OK;
}

mp_status mp_arena_search(mp_arena_problem *problem, mp_error *err)
{
    const size_t n = problem->n;
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_arena_placer_free) mp_arena_placer *placer = mp_arena_placer_new(problem);
    search f = {.problem = problem, .placer = placer};
    int64_t *highest = mp_pool_alloc(pool, problem->n_steps + 1, sizeof *highest);
    problem->height = INT64_MAX;
    f.keys = mp_pool_alloc(pool, n, sizeof *f.keys);
    f.order = mp_pool_alloc(pool, n, sizeof *f.order);
    f.best_offsets = mp_pool_alloc(pool, n, sizeof *f.best_offsets);
    f.live = mp_pool_alloc(pool, 2 * (problem->n_steps + 1), sizeof *f.live);
    f.crowd = mp_pool_alloc(pool, n, sizeof *f.crowd);
    MP_ENSURE(placer && !mp_pool_failed(pool), err, MP_NOMEM, "no memory for the arena of %zu instances", n);
    f.changes = f.live + problem->n_steps + 1;
    measure(&f);
    measure_crowds(&f, highest);
    /* a caller that uses only the bound needs no placement, because placements do not change the bound */
    if (problem->only_bound && is_large(&f) && !problem->exact) {
        problem->height = problem->bound;
        return MP_OK;
    }
    (is_large(&f) ? try_orders_of_many : try_orders)(&f);
    if (!problem->only_bound && !is_large(&f) && !stopped(problem)) MP_CHECK(search_nearby(&f, err));
    if (problem->exact || (!problem->first_fit && !is_large(&f) && !stopped(problem))) MP_CHECK(search_exactly(&f, err));
    put_best(&f);
    return MP_OK;
}
