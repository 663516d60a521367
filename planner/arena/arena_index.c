/* arena_index.c - first fit over a segment tree. Node v has the children 2 v and 2 v + 1; node 1 covers all steps. */
#include "planner/arena/arena.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/base/memory.h"
#include "planner/math/tuning.h"

typedef struct extent { /* the memory of a placed piece: offsets [offset, top) */
    int64_t offset, top;
} extent;

/* For the steps of one tree node: the heights up to which memory is full, apart from small gaps. The lowest of these heights is
 * `least`, the highest is `most`. `raised` is a height that has not been passed on to the node's children yet. */
typedef struct filled {
    int64_t least, most, raised;
} filled;

typedef struct noted {
    int64_t offset;
    const mp_pack_piece *piece;
} noted;

struct mp_arena_index {
    mp_pool *pool; /* owns this struct and all arrays */
    const mp_arena_problem *problem;
    int n_steps; /* a power of 2 */
    size_t *start;
    int *n; /* per tree node: number of its extents, which are extents[start[v] .. start[v] + n[v]), sorted by offset */
    int64_t *highest; /* per tree node: the highest top among the extents of the node and its descendants */
    filled *filled;   /* per tree node: the heights up to which memory is full at its steps */
    extent *extents;
    int64_t slack; /* size of the largest gap that is ignored, so that memory around it counts as full */
    int n_refills, n_noted;
    noted *noted; /* all placed pieces */
};

typedef struct stretch { /* a node of the tree, which covers the steps [begin, end) */
    int node, begin, end;
} stretch;

static stretch root_of(const mp_arena_index *x)
{
    return (stretch){1, 0, x->n_steps};
}

static stretch child_of(stretch s, int side)
{
    const int middle = s.begin + (s.end - s.begin) / 2;
    return side ? (stretch){2 * s.node + 1, middle, s.end} : (stretch){2 * s.node, s.begin, middle};
}

static bool apart(stretch s, const mp_pack_piece *piece)
{
    return piece->end <= s.begin || s.end <= piece->begin;
}

static bool covered(stretch s, const mp_pack_piece *piece)
{
    return piece->begin <= s.begin && s.end <= piece->end;
}

static void count(mp_arena_index *x, stretch s, const mp_pack_piece *piece)
{
    if (apart(s, piece)) return;
    if (covered(s, piece)) {
        x->start[s.node + 1]++;
        return;
    }
    for (int side = 0; side < 2; side++) count(x, child_of(s, side), piece);
}

mp_arena_index *mp_arena_index_new(const mp_arena_problem *problem)
{
    mp_pool *pool = mp_pool_new();
    mp_arena_index *x = mp_pool_alloc(pool, 1, sizeof *x);
    if (!x) goto failed;
    x->pool = pool;
    x->problem = problem;
    x->n_steps = 1;
    while ((size_t)x->n_steps < problem->n_steps) x->n_steps *= 2;
    const size_t n_nodes = 2 * (size_t)x->n_steps;
    x->start = mp_pool_alloc(pool, n_nodes + 1, sizeof *x->start);
    x->n = mp_pool_alloc(pool, n_nodes, sizeof *x->n);
    x->highest = mp_pool_alloc(pool, n_nodes, sizeof *x->highest);
    x->filled = mp_pool_alloc(pool, n_nodes, sizeof *x->filled);
    if (mp_pool_failed(pool)) goto failed;
    for (size_t p = 0; p < problem->n_pieces; p++) count(x, root_of(x), &problem->pieces[p]);
    for (size_t v = 0; v < n_nodes; v++) x->start[v + 1] += x->start[v];
    x->extents = mp_pool_alloc(pool, x->start[n_nodes], sizeof *x->extents);
    x->noted = mp_pool_alloc(pool, problem->n_pieces, sizeof *x->noted);
    if (!mp_pool_failed(pool)) return x;
failed:
    mp_pool_free(pool);
    return NULL;
}

void mp_arena_index_free(mp_arena_index *x)
{
    if (x) mp_pool_free(x->pool);
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

/* ---- per step, the height up to which memory is full ---- */

static void raise_node(filled *f, int64_t height)
{
    f->least = mp_larger(f->least, height);
    f->most = mp_larger(f->most, height);
    f->raised = mp_larger(f->raised, height);
}

static void hand_down(mp_arena_index *x, int node)
{
    filled *f = &x->filled[node];
    if (!f->raised) return;
    for (int side = 0; side < 2; side++) raise_node(&x->filled[2 * (size_t)node + (size_t)side], f->raised);
    f->raised = 0;
}

/* Returns the largest height up to which memory is full at any step of the piece. */
static int64_t full_to(mp_arena_index *x, stretch s, const mp_pack_piece *piece)
{
    const filled *f = &x->filled[s.node];
    if (apart(s, piece)) return 0;
    if (covered(s, piece) || f->least == f->most) return f->most;
    hand_down(x, s.node);
    return mp_larger(full_to(x, child_of(s, 0), piece), full_to(x, child_of(s, 1), piece));
}

/* Records a piece placed at `offset`. At each step of the piece where memory is full up to `offset`, the full height rises to
 * the top of the piece. */
static void fill(mp_arena_index *x, stretch s, const mp_pack_piece *piece, int64_t offset, int64_t top)
{
    filled *f = &x->filled[s.node];
    if (apart(s, piece) || f->most < offset - x->slack || f->least >= top) return;
    if (covered(s, piece) && f->least >= offset - x->slack) {
        raise_node(f, top);
        return;
    }
    hand_down(x, s.node);
    for (int side = 0; side < 2; side++) fill(x, child_of(s, side), piece, offset, top);
    const filled *a = &x->filled[2 * (size_t)s.node], *b = a + 1;
    f->least = a->least < b->least ? a->least : b->least;
    f->most = mp_larger(a->most, b->most);
}

static int by_offset(const void *a, const void *b)
{
    const noted *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

/* Recomputes the heights up to which memory is full, for pieces of at least `size`. Smaller gaps count as full. After
 * MP_ARENA_EXACT_REFILLS calls, only gaps below half of `size` count as full. The heights are then valid for smaller pieces
 * too, so fewer calls are needed. */
static void refill(mp_arena_index *x, int64_t size, int64_t *work)
{
    x->slack = x->n_refills++ < MP_ARENA_EXACT_REFILLS ? size - 1 : (size - 1) / 2;
    memset(x->filled, 0, 2 * (size_t)x->n_steps * sizeof *x->filled);
    qsort(x->noted, (size_t)x->n_noted, sizeof *x->noted, by_offset);
    for (int k = 0; k < x->n_noted; k++)
        fill(x, root_of(x), x->noted[k].piece, x->noted[k].offset, x->noted[k].offset + x->noted[k].piece->size);
    *work += x->n_noted;
}

/* ---- placed pieces ---- */

/* Returns the first extent of a tree node whose top is above this offset. */
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

/* Raises the offset of a piece above the extents that it would overlap, in one pass through the tree. Returns true if the
 * offset changed; the caller then makes another pass. */
static bool raise_offset(const mp_arena_index *x, stretch s, const mp_pack_piece *piece, int64_t *offset, int64_t *work)
{
    bool raised_any = false;
    if (apart(s, piece) || x->highest[s.node] <= *offset) return false;
    const extent *list = &x->extents[x->start[s.node]];
    for (int i = first_above(x, s.node, *offset, work); i < x->n[s.node] && list[i].offset < *offset + piece->size; i++) {
        *offset = list[i].top;
        raised_any = true;
        ++*work;
    }
    ++*work;
    if (s.end - s.begin == 1) return raised_any;
    for (int side = 0; side < 2; side++)
        if (raise_offset(x, child_of(s, side), piece, offset, work)) raised_any = true;
    return raised_any;
}

static void note(mp_arena_index *x, stretch s, const mp_pack_piece *piece, extent e, int64_t *work)
{
    if (apart(s, piece)) return;
    x->highest[s.node] = mp_larger(x->highest[s.node], e.top);
    ++*work;
    if (!covered(s, piece)) {
        for (int side = 0; side < 2; side++) note(x, child_of(s, side), piece, e, work);
        return;
    }
    const int at = first_above(x, s.node, e.offset, work);
    extent *place = &x->extents[x->start[s.node]] + at;
    memmove(place + 1, place, (size_t)(x->n[s.node]++ - at) * sizeof *place);
    *place = e;
}

void mp_arena_index_place(mp_arena_index *x, mp_arena_item *item, int64_t *work)
{
    const mp_pack_piece *pieces = &x->problem->pieces[item->piece];
    int64_t offset = 0;
    bool raised_any = true;
    if (item->size <= x->slack) refill(x, item->size, work);
    for (int p = 0; p < item->n_pieces; p++)
        if (pieces[p].size > x->slack) offset = mp_larger(offset, full_to(x, root_of(x), &pieces[p]));
    while (raised_any) {
        raised_any = false;
        for (int p = 0; p < item->n_pieces; p++)
            if (raise_offset(x, root_of(x), &pieces[p], &offset, work)) raised_any = true;
    }
    for (int p = 0; p < item->n_pieces; p++) {
        const int64_t top = offset + pieces[p].size;
        x->noted[x->n_noted++] = (noted){offset, &pieces[p]};
        note(x, root_of(x), &pieces[p], (extent){offset, top}, work);
        fill(x, root_of(x), &pieces[p], offset, top);
    }
    item->offset = offset;
}
