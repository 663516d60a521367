/* arena_place.c - places items one after the other. The offset of each item is found by a comparison with all placed items that
 * are live at the same time. */
#include "planner/arena/arena.h"

#include <string.h>

#include "planner/math/tuning.h"

/* An item with an offset. The array of placed items is sorted by offset, and is scanned for each new item. */
typedef struct placed {
    int64_t offset, size;
    int begin, end;
    int item;
} placed;

/* An obstacle: offsets that a placed item excludes for the item to be placed. All offsets o with low < o < high are
 * excluded. */
typedef struct obstacle {
    int64_t low, high;
} obstacle;

struct mp_arena_placer {
    mp_arena_problem *problem;
    mp_pool *pool; /* memory pool that owns the four arrays below */
    placed *placed;
    obstacle *obstacles;
    /* for MP_ARENA_LOWEST_FIRST, per item in the given order: the lowest offset above all placed items that are live at the
     * same time */
    int64_t *lowest;
    int *unplaced;         /* the items that have no offset yet, as indices in the given order */
    mp_arena_index *index; /* if there are many items, first fit uses this index of gaps instead of the arrays above */
};

mp_arena_placer *mp_arena_placer_new(mp_arena_problem *problem)
{
    const size_t n = problem->n;
    mp_arena_placer *p = mp_alloc(1, sizeof *p);
    if (!p) return NULL;
    p->problem = problem;
    if (n > MP_ARENA_UNINDEXED) {
        p->index = mp_arena_index_new(problem);
    } else {
        p->pool = mp_pool_new();
        p->placed = mp_pool_alloc(p->pool, n, sizeof *p->placed);
        p->obstacles = mp_pool_alloc(p->pool, n, sizeof *p->obstacles);
        p->lowest = mp_pool_alloc(p->pool, n, sizeof *p->lowest);
        p->unplaced = mp_pool_alloc(p->pool, n, sizeof *p->unplaced);
    }
    if (p->index || !mp_pool_failed(p->pool)) return p;
    mp_arena_placer_free(p);
    return NULL;
}

void mp_arena_placer_free(mp_arena_placer *p)
{
    if (!p) return;
    mp_pool_free(p->pool);
    mp_arena_index_free(p->index);
    mp_free(p);
}

/* Two items x and y are live at some common steps. Finds the largest size of each during these steps. Returns false if there is
 * no common step. */
static bool sizes_together(const mp_arena_problem *problem, const mp_arena_item *x, const mp_arena_item *y, int64_t *x_size,
                           int64_t *y_size)
{
    if (x->begin >= y->end || y->begin >= x->end) return false;
    if (x->n_pieces == 1 && y->n_pieces == 1) {
        *x_size = x->size;
        *y_size = y->size;
        return true;
    }
    const mp_pack_piece *a = &problem->pieces[x->piece], *a_end = a + x->n_pieces;
    const mp_pack_piece *b = &problem->pieces[y->piece], *b_end = b + y->n_pieces;
    *x_size = *y_size = 0;
    while (a < a_end && b < b_end) {
        if (a->begin < b->end && b->begin < a->end) {
            if (a->size > *x_size) *x_size = a->size;
            if (b->size > *y_size) *y_size = b->size;
        }
        if (a->end < b->end)
            a++;
        else
            b++;
    }
    return *x_size > 0;
}

/* Returns the lowest offset that no obstacle excludes, or with `tightest` the offset of the smallest gap that fits. Obstacles
 * are sorted by the offsets of their items. Their fields `low` need not ascend: an obstacle's `low` depends on the new item's
 * size while both items are live. So a gap ends at the smallest `low` of all later obstacles. */
static int64_t find_gap(obstacle *obstacles, size_t n, bool tightest)
{
    int64_t low = INT64_MAX, floor = 0, at = -1, slack = INT64_MAX;
    for (size_t j = n; j-- > 0;) {
        if (obstacles[j].low < low) low = obstacles[j].low;
        obstacles[j].low = low;
    }
    for (size_t j = 0; j < n; j++) {
        if (floor <= obstacles[j].low && obstacles[j].low - floor < slack) {
            at = floor;
            slack = obstacles[j].low - floor;
            if (!tightest) break;
        }
        if (obstacles[j].high > floor) floor = obstacles[j].high;
    }
    return at >= 0 ? at : floor;
}

static int64_t offset_of_profile(mp_arena_placer *p, const mp_arena_item *x, size_t n_placed, bool tightest)
{
    size_t n = 0;
    for (size_t j = 0; j < n_placed; j++) {
        const placed *y = &p->placed[j];
        int64_t x_size, y_size;
        if (!sizes_together(p->problem, x, &p->problem->items[y->item], &x_size, &y_size)) continue;
        p->obstacles[n++] = (obstacle){y->offset - x_size, y->offset + y_size};
    }
    return find_gap(p->obstacles, n, tightest);
}

/* Finds an offset like find_gap, for an item of a single piece. Such an item has one size, so a gap below a placed item must
 * have at least this size. */
static int64_t offset_of_block(const mp_arena_placer *p, const mp_arena_item *x, size_t n_placed, bool tightest, size_t *seen)
{
    int64_t floor = 0, at = -1, space = INT64_MAX;
    size_t j = 0;
    for (; j < n_placed; j++) {
        const placed *y = &p->placed[j];
        int64_t x_size, y_size = y->size;
        if (y->begin >= x->end || x->begin >= y->end) continue;
        if (p->problem->items[y->item].n_pieces > 1 &&
            !sizes_together(p->problem, x, &p->problem->items[y->item], &x_size, &y_size))
            continue;
        if (y->offset - floor >= x->size && y->offset - floor < space) {
            at = floor;
            space = y->offset - floor;
            if (!tightest) break;
        }
        if (y->offset + y_size > floor) floor = y->offset + y_size;
    }
    *seen = j;
    return at >= 0 ? at : floor;
}

static int64_t place_into_gaps(mp_arena_placer *p, const int *order, bool tightest, int64_t limit, int64_t *work)
{
    mp_arena_problem *problem = p->problem;
    int64_t height = 0;
    for (size_t k = 0; k < problem->n && height < limit; k++) {
        mp_arena_item *x = &problem->items[order[k]];
        size_t seen = k, low = 0, high = k;
        x->offset = x->n_pieces > 1 ? offset_of_profile(p, x, k, tightest) : offset_of_block(p, x, k, tightest, &seen);
        *work += (int64_t)seen + 1;
        if (x->offset + x->size > height) height = x->offset + x->size;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (p->placed[middle].offset <= x->offset)
                low = middle + 1;
            else
                high = middle;
        }
        memmove(p->placed + low + 1, p->placed + low, (k - low) * sizeof *p->placed);
        p->placed[low] = (placed){x->offset, x->size, x->begin, x->end, order[k]};
    }
    return height;
}

static int64_t place_lowest_first(mp_arena_placer *p, const int *order, int64_t limit, int64_t *work)
{
    mp_arena_problem *problem = p->problem;
    size_t n = problem->n;
    int64_t height = 0;
    for (size_t k = 0; k < n; k++) {
        p->unplaced[k] = (int)k;
        p->lowest[k] = 0;
    }
    while (n > 0 && height < limit) {
        size_t next = 0;
        for (size_t k = 1; k < n; k++)
            if (p->lowest[p->unplaced[k]] < p->lowest[p->unplaced[next]]) next = k;
        const int rank = p->unplaced[next];
        mp_arena_item *x = &problem->items[order[rank]];
        x->offset = p->lowest[rank];
        if (x->offset + x->size > height) height = x->offset + x->size;
        memmove(p->unplaced + next, p->unplaced + next + 1, (--n - next) * sizeof *p->unplaced);
        for (size_t k = 0; k < n; k++) {
            const int other = p->unplaced[k];
            int64_t x_size, y_size;
            if (p->lowest[other] >= x->offset + x->size) continue;
            if (!sizes_together(problem, x, &problem->items[order[other]], &x_size, &y_size)) continue;
            if (x->offset + x_size > p->lowest[other]) p->lowest[other] = x->offset + x_size;
        }
        *work += 2 * (int64_t)n;
    }
    return height;
}

static int64_t place_by_index(mp_arena_placer *p, const int *order, int64_t limit, int64_t *work)
{
    mp_arena_problem *problem = p->problem;
    int64_t height = 0;
    mp_arena_index_clear(p->index);
    for (size_t k = 0; k < problem->n && height < limit; k++) {
        mp_arena_item *x = &problem->items[order[k]];
        mp_arena_index_place(p->index, x, work);
        if (x->offset + x->size > height) height = x->offset + x->size;
    }
    return height;
}

int64_t mp_arena_place(mp_arena_placer *placer, const int *order, mp_arena_rule rule, int64_t limit, int64_t *work)
{
    if (placer->index) return place_by_index(placer, order, limit, work);
    if (rule == MP_ARENA_LOWEST_FIRST) return place_lowest_first(placer, order, limit, work);
    return place_into_gaps(placer, order, rule == MP_ARENA_BEST_FIT, limit, work);
}
