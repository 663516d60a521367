#include "planner/arena/arena_place.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "planner/arena/arena_index.h"

/* An item that lies, in the order of offsets: what is looked at for every new one. */
typedef struct lying {
    int64_t offset, size;
    int first, last;
    int item; /* -1: of one piece, so that all is said */
} lying;

typedef struct gap { /* what an item of several pieces may not reach into: offsets between low and high, both excluded */
    int64_t low, high;
} gap;

struct mp_placer {
    mp_fitting *fitting;
    lying *lying;
    gap *gaps;
    int64_t *lowest;       /* per rank in the order, for MP_LOWEST_FIRST: above all that lie already */
    int *waiting;          /* ranks that do not lie yet */
    mp_arena_index *index; /* instead of all that, where there are many items */
};

mp_placer *mp_placer_new(mp_fitting *fitting)
{
    const size_t n = fitting->n;
    mp_placer *p = mp_alloc(1, sizeof *p);
    if (!p) return NULL;
    p->fitting = fitting;
    if (n > MP_ARENA_UNINDEXED) {
        p->index = mp_arena_index_new(fitting);
        if (p->index) return p;
        mp_free(p);
        return NULL;
    }
    p->lying = mp_alloc(n, sizeof *p->lying);
    p->gaps = mp_alloc(n, sizeof *p->gaps);
    p->lowest = mp_alloc(n, sizeof *p->lowest);
    p->waiting = mp_alloc(n, sizeof *p->waiting);
    if (p->lying && p->gaps && p->lowest && p->waiting) return p;
    mp_placer_free(p);
    return NULL;
}

void mp_placer_free(mp_placer *p)
{
    if (!p) return;
    mp_free(p->lying);
    mp_free(p->gaps);
    mp_free(p->lowest);
    mp_free(p->waiting);
    mp_arena_index_free(p->index);
    mp_free(p);
}

/* The most that x and y occupy at steps where both are there; false if there are none. */
static bool meet(const mp_fitting *fit, const mp_item *x, const mp_item *y, int64_t *x_size, int64_t *y_size)
{
    if (x->first > y->last || y->first > x->last) return false;
    if (x->n_pieces == 1 && y->n_pieces == 1) {
        *x_size = x->size;
        *y_size = y->size;
        return true;
    }
    const mp_piece *a = &fit->pieces[x->piece], *a_end = a + x->n_pieces;
    const mp_piece *b = &fit->pieces[y->piece], *b_end = b + y->n_pieces;
    *x_size = *y_size = 0;
    while (a < a_end && b < b_end) {
        if (a->first <= b->last && b->first <= a->last) {
            if (a->size > *x_size) *x_size = a->size;
            if (b->size > *y_size) *y_size = b->size;
        }
        if (a->last < b->last)
            a++;
        else
            b++;
    }
    return *x_size > 0;
}

/* The lowest offset that none of the gaps covers, or the one in the tightest place; gaps are in the order of the offsets they
 * come from. x lies below y if it ends where y begins, at those steps where both are there: so for a staircase x what is in
 * the way need not begin in the order of offsets, and what counts is the first that begins among all later ones. */
static int64_t find_gap(gap *gaps, size_t n, bool tightest)
{
    int64_t begins = INT64_MAX, floor = 0, at = -1, slack = INT64_MAX;
    for (size_t j = n; j-- > 0;) {
        if (gaps[j].low < begins) begins = gaps[j].low;
        gaps[j].low = begins;
    }
    for (size_t j = 0; j < n; j++) {
        if (floor <= gaps[j].low && gaps[j].low - floor < slack) {
            at = floor;
            slack = gaps[j].low - floor;
            if (!tightest) break;
        }
        if (gaps[j].high > floor) floor = gaps[j].high;
    }
    return at >= 0 ? at : floor;
}

static int64_t offset_of_staircase(mp_placer *p, const mp_item *x, size_t n_lying, bool tightest)
{
    size_t n = 0;
    for (size_t j = 0; j < n_lying; j++) {
        const lying *y = &p->lying[j];
        int64_t x_size, y_size;
        if (!meet(p->fitting, x, &p->fitting->items[y->item], &x_size, &y_size)) continue;
        p->gaps[n++] = (gap){y->offset - x_size, y->offset + y_size};
    }
    return find_gap(p->gaps, n, tightest);
}

/* The same for an item of one piece, which needs as much room under everything. */
static int64_t offset_of_block(const mp_placer *p, const mp_item *x, size_t n_lying, bool tightest, size_t *seen)
{
    int64_t floor = 0, at = -1, room = INT64_MAX;
    size_t j = 0;
    for (; j < n_lying; j++) {
        const lying *y = &p->lying[j];
        int64_t x_size, y_size = y->size;
        if (y->first > x->last || x->first > y->last) continue;
        if (p->fitting->items[y->item].n_pieces > 1 && !meet(p->fitting, x, &p->fitting->items[y->item], &x_size, &y_size))
            continue;
        if (y->offset - floor >= x->size && y->offset - floor < room) {
            at = floor;
            room = y->offset - floor;
            if (!tightest) break;
        }
        if (y->offset + y_size > floor) floor = y->offset + y_size;
    }
    *seen = j;
    return at >= 0 ? at : floor;
}

static int64_t place_into_gaps(mp_placer *p, const int *order, bool tightest, int64_t limit, int64_t *work)
{
    mp_fitting *fit = p->fitting;
    int64_t height = 0;
    for (size_t k = 0; k < fit->n && height < limit; k++) {
        mp_item *x = &fit->items[order[k]];
        size_t seen = k, low = 0, high = k;
        x->offset = x->n_pieces > 1 ? offset_of_staircase(p, x, k, tightest) : offset_of_block(p, x, k, tightest, &seen);
        *work += (int64_t)seen + 1;
        if (x->offset + x->size > height) height = x->offset + x->size;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (p->lying[middle].offset <= x->offset)
                low = middle + 1;
            else
                high = middle;
        }
        memmove(p->lying + low + 1, p->lying + low, (k - low) * sizeof *p->lying);
        p->lying[low] = (lying){x->offset, x->size, x->first, x->last, order[k]};
    }
    return height;
}

static int64_t place_lowest_first(mp_placer *p, const int *order, int64_t limit, int64_t *work)
{
    mp_fitting *fit = p->fitting;
    size_t n = fit->n;
    int64_t height = 0;
    for (size_t k = 0; k < n; k++) {
        p->waiting[k] = (int)k;
        p->lowest[k] = 0;
    }
    while (n > 0 && height < limit) {
        size_t next = 0;
        for (size_t k = 1; k < n; k++)
            if (p->lowest[p->waiting[k]] < p->lowest[p->waiting[next]]) next = k;
        const int rank = p->waiting[next];
        mp_item *x = &fit->items[order[rank]];
        x->offset = p->lowest[rank];
        if (x->offset + x->size > height) height = x->offset + x->size;
        memmove(p->waiting + next, p->waiting + next + 1, (--n - next) * sizeof *p->waiting);
        for (size_t k = 0; k < n; k++) {
            const int other = p->waiting[k];
            int64_t x_size, y_size;
            if (p->lowest[other] >= x->offset + x->size) continue;
            if (!meet(fit, x, &fit->items[order[other]], &x_size, &y_size)) continue;
            if (x->offset + x_size > p->lowest[other]) p->lowest[other] = x->offset + x_size;
        }
        *work += 2 * (int64_t)n;
    }
    return height;
}

static int64_t place_by_index(mp_placer *p, const int *order, int64_t limit, int64_t *work)
{
    mp_fitting *fit = p->fitting;
    int64_t height = 0;
    mp_arena_index_clear(p->index);
    for (size_t k = 0; k < fit->n && height < limit; k++) {
        mp_item *x = &fit->items[order[k]];
        mp_arena_index_place(p->index, x, work);
        if (x->offset + x->size > height) height = x->offset + x->size;
    }
    return height;
}

int64_t mp_place(mp_placer *placer, const int *order, enum mp_placing placing, int64_t limit, int64_t *work)
{
    if (placer->index) return place_by_index(placer, order, limit, work);
    if (placing == MP_LOWEST_FIRST) return place_lowest_first(placer, order, limit, work);
    return place_into_gaps(placer, order, placing == MP_TIGHTEST_GAP, limit, work);
}
