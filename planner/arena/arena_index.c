/* arena_index.c - first fit over a segment tree. Node v has the children 2 v and 2 v + 1; node 1 covers all steps. */
#include "planner/arena/arena_index.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"

typedef struct extent { /* of what lies, in units of sizes: from offset until before top */
    int64_t offset, top;
} extent;

/* Every step of a node is full, but for small gaps, from the bottom to a height between `least` and `most`; what raised all of
 * them has yet to reach its children. */
typedef struct filled {
    int64_t least, most, raised;
} filled;

typedef struct noted {
    int64_t offset;
    const mp_piece *piece;
} noted;

struct mp_arena_index {
    const mp_fitting *fitting;
    int n_steps; /* a power of 2 */
    size_t *start;
    int *n;           /* per node: its extents are extents[start[v] .. start[v] + n[v]), by offset */
    int64_t *highest; /* per node: the highest top at it and below it */
    filled *filled;   /* per node */
    extent *extents;
    int64_t slack; /* gaps of up to this count as full */
    int n_refills, n_noted;
    noted *noted; /* all that lies */
};

typedef struct stretch { /* a node and the steps that it covers, inclusive */
    int node, first, last;
} stretch;

static stretch root_of(const mp_arena_index *x)
{
    return (stretch){1, 0, x->n_steps - 1};
}

static stretch child_of(stretch s, int side)
{
    const int middle = s.first + (s.last - s.first) / 2;
    return side ? (stretch){2 * s.node + 1, middle + 1, s.last} : (stretch){2 * s.node, s.first, middle};
}

static bool apart(stretch s, const mp_piece *piece)
{
    return piece->last < s.first || s.last < piece->first;
}

static bool covered(stretch s, const mp_piece *piece)
{
    return piece->first <= s.first && s.last <= piece->last;
}

static void count(mp_arena_index *x, stretch s, const mp_piece *piece)
{
    if (apart(s, piece)) return;
    if (covered(s, piece)) {
        x->start[s.node + 1]++;
        return;
    }
    for (int side = 0; side < 2; side++) count(x, child_of(s, side), piece);
}

mp_arena_index *mp_arena_index_new(const mp_fitting *fitting)
{
    mp_arena_index *x = mp_alloc(1, sizeof *x);
    if (!x) return NULL;
    x->fitting = fitting;
    x->n_steps = 1;
    while ((size_t)x->n_steps < fitting->n_steps) x->n_steps *= 2;
    const size_t n_nodes = 2 * (size_t)x->n_steps;
    size_t n_pieces = 0;
    x->start = mp_alloc(n_nodes + 1, sizeof *x->start);
    x->n = mp_alloc(n_nodes, sizeof *x->n);
    x->highest = mp_alloc(n_nodes, sizeof *x->highest);
    x->filled = mp_alloc(n_nodes, sizeof *x->filled);
    if (!x->start || !x->n || !x->highest || !x->filled) goto failed;
    for (size_t k = 0; k < fitting->n; k++) n_pieces += (size_t)fitting->items[k].n_pieces;
    for (size_t k = 0; k < fitting->n; k++)
        for (int p = 0; p < fitting->items[k].n_pieces; p++)
            count(x, root_of(x), &fitting->pieces[fitting->items[k].piece + p]);
    for (size_t v = 0; v < n_nodes; v++) x->start[v + 1] += x->start[v];
    x->extents = mp_alloc(x->start[n_nodes], sizeof *x->extents);
    x->noted = mp_alloc(n_pieces, sizeof *x->noted);
    if (x->extents && x->noted) return x;
failed:
    mp_arena_index_free(x);
    return NULL;
}

void mp_arena_index_free(mp_arena_index *x)
{
    if (!x) return;
    mp_free(x->start);
    mp_free(x->n);
    mp_free(x->highest);
    mp_free(x->filled);
    mp_free(x->extents);
    mp_free(x->noted);
    mp_free(x);
}

void mp_arena_index_clear(mp_arena_index *x)
{
    const size_t n_nodes = 2 * (size_t)x->n_steps;
    memset(x->n, 0, n_nodes * sizeof *x->n);
    memset(x->highest, 0, n_nodes * sizeof *x->highest);
    memset(x->filled, 0, n_nodes * sizeof *x->filled);
    x->slack = INT64_MAX;
    x->n_refills = x->n_noted = 0;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- up to where steps are full ---- */

static void raise_node(filled *f, int64_t height)
{
    f->least = larger(f->least, height);
    f->most = larger(f->most, height);
    f->raised = larger(f->raised, height);
}

static void hand_down(mp_arena_index *x, int node)
{
    filled *f = &x->filled[node];
    if (!f->raised) return;
    for (int side = 0; side < 2; side++) raise_node(&x->filled[2 * node + side], f->raised);
    f->raised = 0;
}

/* The most of a step of the piece. */
static int64_t full_to(mp_arena_index *x, stretch s, const mp_piece *piece)
{
    const filled *f = &x->filled[s.node];
    if (apart(s, piece)) return 0;
    if (covered(s, piece) || f->least == f->most) return f->most;
    hand_down(x, s.node);
    return larger(full_to(x, child_of(s, 0), piece), full_to(x, child_of(s, 1), piece));
}

/* What lies from `offset` on fills those steps further that are full so far. */
static void fill(mp_arena_index *x, stretch s, const mp_piece *piece, int64_t offset, int64_t top)
{
    filled *f = &x->filled[s.node];
    if (apart(s, piece) || f->most < offset - x->slack || f->least >= top) return;
    if (covered(s, piece) && f->least >= offset - x->slack) {
        raise_node(f, top);
        return;
    }
    hand_down(x, s.node);
    for (int side = 0; side < 2; side++) fill(x, child_of(s, side), piece, offset, top);
    const filled *a = &x->filled[2 * s.node], *b = a + 1;
    f->least = a->least < b->least ? a->least : b->least;
    f->most = larger(a->most, b->most);
}

static int by_offset(const void *a, const void *b)
{
    const noted *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

/* Counts as full what is, for pieces of this size and more: exactly so the first times, then for half of the size too. */
static void refill(mp_arena_index *x, int64_t size, int64_t *work)
{
    enum { EXACT = 40 };
    x->slack = x->n_refills++ < EXACT ? size - 1 : (size - 1) / 2;
    memset(x->filled, 0, 2 * (size_t)x->n_steps * sizeof *x->filled);
    qsort(x->noted, (size_t)x->n_noted, sizeof *x->noted, by_offset);
    for (int k = 0; k < x->n_noted; k++)
        fill(x, root_of(x), x->noted[k].piece, x->noted[k].offset, x->noted[k].offset + x->noted[k].piece->size);
    *work += x->n_noted;
}

/* ---- what lies ---- */

/* The first extent of a node whose top is above this offset. */
static int first_above(const mp_arena_index *x, int node, int64_t offset, int64_t *work)
{
    const extent *list = &x->extents[x->start[node]];
    int low = 0, high = x->n[node];
    while (low < high) {
        const int middle = low + (high - low) / 2;
        ++*work;
        if (list[middle].top <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Lifts the offset of a piece over what is in its way, as far as one walk through the tree tells; true if anything is. */
static bool lift(const mp_arena_index *x, stretch s, const mp_piece *piece, int64_t *offset, int64_t *work)
{
    bool lifted = false;
    if (apart(s, piece) || x->highest[s.node] <= *offset) return false;
    const extent *list = &x->extents[x->start[s.node]];
    for (int i = first_above(x, s.node, *offset, work); i < x->n[s.node] && list[i].offset < *offset + piece->size; i++) {
        *offset = list[i].top;
        lifted = true;
        ++*work;
    }
    ++*work;
    if (s.first == s.last) return lifted;
    for (int side = 0; side < 2; side++)
        if (lift(x, child_of(s, side), piece, offset, work)) lifted = true;
    return lifted;
}

static void note(mp_arena_index *x, stretch s, const mp_piece *piece, extent lies, int64_t *work)
{
    if (apart(s, piece)) return;
    x->highest[s.node] = larger(x->highest[s.node], lies.top);
    ++*work;
    if (!covered(s, piece)) {
        for (int side = 0; side < 2; side++) note(x, child_of(s, side), piece, lies, work);
        return;
    }
    const int at = first_above(x, s.node, lies.offset, work);
    extent *place = &x->extents[x->start[s.node]] + at;
    memmove(place + 1, place, (size_t)(x->n[s.node]++ - at) * sizeof *place);
    *place = lies;
}

void mp_arena_index_place(mp_arena_index *x, mp_item *item, int64_t *work)
{
    const mp_piece *pieces = &x->fitting->pieces[item->piece];
    int64_t offset = 0;
    bool lifted = true;
    if (item->size <= x->slack) refill(x, item->size, work);
    for (int p = 0; p < item->n_pieces; p++)
        if (pieces[p].size > x->slack) offset = larger(offset, full_to(x, root_of(x), &pieces[p]));
    while (lifted) {
        lifted = false;
        for (int p = 0; p < item->n_pieces; p++)
            if (lift(x, root_of(x), &pieces[p], &offset, work)) lifted = true;
    }
    for (int p = 0; p < item->n_pieces; p++) {
        const int64_t top = offset + pieces[p].size;
        x->noted[x->n_noted++] = (noted){offset, &pieces[p]};
        note(x, root_of(x), &pieces[p], (extent){offset, top}, work);
        fill(x, root_of(x), &pieces[p], offset, top);
    }
    item->offset = offset;
}
