#include "planner/arena_fit.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/memory.h"

enum { ROUNDS = 48 }; /* of putting first what lay on top */

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

/* An item that lies, in the order of offsets: what is looked at for every new one. */
typedef struct lying {
    int64_t offset, end;
    int first, last, again, until;
} lying;

typedef struct fitter {
    mp_item *items;
    size_t n;
    int64_t alignment, bound, best; /* the lower bound, and the lowest height so far */
    int64_t *offsets, *best_offsets;
    lying *placed;
    key *order, *best_order;
    int64_t *live; /* per step */
    int fullest;
} fitter;

static int64_t life(const mp_item *x)
{
    return x->last - x->first + 1 + (x->again < 0 ? 0 : x->end - x->again + 1);
}

static bool together(const lying *p, const mp_item *x)
{
    if (p->first <= x->last && x->first <= p->last) return true;
    if (p->again >= 0 && p->again <= x->last && x->first <= p->until) return true;
    if (x->again < 0) return false;
    if (p->first <= x->end && x->again <= p->last) return true;
    return p->again >= 0 && p->again <= x->end && x->again <= p->until;
}

/* Places the items in f->order; stops when the height reaches the best one. Returns the height. */
static int64_t place(fitter *f, bool tightest)
{
    size_t n_placed = 0;
    int64_t height = 0;
    for (size_t k = 0; k < f->n; k++) {
        const mp_item *x = &f->items[f->order[k].item];
        int64_t bytes = (x->bytes + f->alignment - 1) / f->alignment * f->alignment, floor = 0, at = -1, gap = INT64_MAX;
        for (size_t j = 0; j < n_placed; j++) {
            const lying *p = &f->placed[j];
            if (!together(p, x)) continue;
            if (p->offset - floor >= bytes && p->offset - floor < gap) {
                at = floor;
                gap = p->offset - floor;
                if (!tightest) break;
            }
            if (p->end > floor) floor = p->end;
        }
        if (at < 0) at = floor;
        f->offsets[f->order[k].item] = at;
        if (at + bytes > height) height = at + bytes;
        if (height >= f->best) return height;
        size_t low = 0, high = n_placed;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (f->placed[middle].offset <= at)
                low = middle + 1;
            else
                high = middle;
        }
        memmove(f->placed + low + 1, f->placed + low, (n_placed - low) * sizeof *f->placed);
        f->placed[low] = (lying){at, at + bytes, x->first, x->last, x->again, x->end};
        n_placed++;
    }
    return height;
}

/* Tries f->order with both rules, and keeps what is lower than anything before. */
static bool attempt(fitter *f)
{
    bool better = false;
    for (int tightest = 0; tightest < 2 && f->best > f->bound; tightest++) {
        int64_t height = place(f, tightest);
        if (height >= f->best) continue;
        f->best = height;
        better = true;
        memcpy(f->best_offsets, f->offsets, f->n * sizeof *f->offsets);
        memcpy(f->best_order, f->order, f->n * sizeof *f->order);
    }
    return better;
}

static void measure(fitter *f, size_t n_steps)
{
    for (size_t k = 0; k < f->n; k++) {
        const mp_item *x = &f->items[k];
        int64_t bytes = (x->bytes + f->alignment - 1) / f->alignment * f->alignment;
        for (int t = x->first; t <= x->last; t++) f->live[t] += bytes;
        for (int t = x->again; x->again >= 0 && t <= x->end; t++) f->live[t] += t < x->first || t > x->last ? bytes : 0;
    }
    for (size_t t = 0; t < n_steps; t++)
        if (f->live[t] > f->live[f->fullest]) f->fullest = (int)t;
    f->bound = n_steps ? f->live[f->fullest] : 0;
}

/* The orders that items are placed in: what comes first gets the lowest offsets. */
static void sort_by(fitter *f, int rule)
{
    for (size_t k = 0; k < f->n; k++) {
        const mp_item *x = &f->items[k];
        double bytes = (double)x->bytes, length = (double)life(x), fullness = 0;
        bool at_fullest = x->first <= f->fullest && f->fullest <= x->last;
        if (x->again >= 0) at_fullest |= x->again <= f->fullest && f->fullest <= x->end;
        fullness = (double)f->live[x->first] > (double)f->live[x->last] ? (double)f->live[x->first] : (double)f->live[x->last];
        key *o = &f->order[k];
        o->item = (int)k;
        switch (rule) {
        case 0:
            *o = (key){bytes, length, o->item};
            break;
        case 1:
            *o = (key){bytes * length, bytes, o->item};
            break;
        case 2:
            *o = (key){length, bytes, o->item};
            break;
        case 3:
            *o = (key){-(double)x->first, length, o->item};
            break;
        case 4:
            *o = (key){at_fullest ? length : -1 / bytes, bytes, o->item};
            break;
        case 5:
            *o = (key){at_fullest ? 1e18 + length : bytes, bytes, o->item};
            break;
        case 6:
            *o = (key){fullness, bytes * length, o->item};
            break;
        default:
            *o = (key){(double)x->last, bytes, o->item};
        }
    }
    qsort(f->order, f->n, sizeof *f->order, by_key);
}

/* The best order again, with what reaches the top moved to the front. */
static void raise_top(fitter *f)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < f->n; k++) {
            const mp_item *x = &f->items[f->best_order[k].item];
            bool top = f->best_offsets[f->best_order[k].item] + x->bytes + f->alignment > f->best;
            if (top == (pass == 0)) f->order[n++] = f->best_order[k];
        }
}

mp_status mp_fit_items(mp_item *items, size_t n, size_t n_steps, int64_t alignment, mp_error *err)
{
    enum { RULES = 8 };
    mp_status st = MP_OK;
    fitter f = {.items = items, .n = n, .alignment = alignment, .best = INT64_MAX};
    f.offsets = mp_alloc(n, sizeof *f.offsets);
    f.best_offsets = mp_alloc(n, sizeof *f.best_offsets);
    f.placed = mp_alloc(n + 1, sizeof *f.placed);
    f.order = mp_alloc(n, sizeof *f.order);
    f.best_order = mp_alloc(n, sizeof *f.best_order);
    f.live = mp_alloc(n_steps, sizeof *f.live);
    MP_REQUIRE(f.offsets && f.best_offsets && f.placed && f.order && f.best_order && f.live, err, MP_NOMEM,
               "no memory for the arena of %zu instances", n);
    measure(&f, n_steps);
    for (int rule = 0; rule < RULES && f.best > f.bound; rule++) {
        sort_by(&f, rule);
        attempt(&f);
    }
    bool better = true;
    for (int round = 0; round < ROUNDS && better && f.best > f.bound; round++) {
        raise_top(&f);
        better = attempt(&f);
    }
    for (size_t k = 0; k < n; k++) items[k].offset = f.best_offsets[k];
done:
    mp_free(f.offsets);
    mp_free(f.best_offsets);
    mp_free(f.placed);
    mp_free(f.order);
    mp_free(f.best_order);
    mp_free(f.live);
    return st;
}
