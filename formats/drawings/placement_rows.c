/* placement_rows.c - assigns boxes to rows by longest paths, orders boxes within rows by barycenters, and wraps rows into
 * columns. */
#include "formats/drawings/placement.h"

#include <math.h>
#include <stdlib.h>

/* A box during the ordering of its row. */
typedef struct place {
    int box, rank;
    bool main; /* true if the box is on the main line (a longest path of the graph), which is drawn leftmost */
    double barycenter;
    int remaining; /* number of edges on the longest path from this box to a sink */
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->main != y->main) return x->main ? -1 : 1;
    if (x->barycenter != y->barycenter) return x->barycenter < y->barycenter ? -1 : 1;
    if (x->remaining != y->remaining) return x->remaining > y->remaining ? -1 : 1;
    return (x->box > y->box) - (x->box < y->box);
}

/* Computes ranks: the rank of a box is the length of the longest path from a source. A source is then moved directly above
 * its first reader. `remaining` receives the lengths of the longest paths to a sink. */
static void find_ranks(size_t n, const mp_block_edge *edges, size_t n_edges, int *rank, int *remaining)
{
    for (size_t k = 0; k < n; k++) rank[k] = remaining[k] = 0;
    for (size_t k = 0; k < n_edges; k++) /* the edges are sorted by `from`, and from < to, so this is a topological order */
        if (rank[edges[k].to] < rank[edges[k].from] + 1) rank[edges[k].to] = rank[edges[k].from] + 1;
    for (size_t k = n_edges; k-- > 0;)
        if (remaining[edges[k].from] < remaining[edges[k].to] + 1) remaining[edges[k].from] = remaining[edges[k].to] + 1;
    for (size_t k = 0; k < n_edges;) {
        int from = edges[k].from, first = rank[edges[k].to];
        for (; k < n_edges && edges[k].from == from; k++)
            if (rank[edges[k].to] < first) first = rank[edges[k].to];
        if (rank[from] == 0) rank[from] = first - 1;
    }
}

/* Marks one longest path of the whole graph. The path has one box in every rank. */
static void find_main_line(size_t n, const mp_block_edge *edges, size_t n_edges, const int *rank, const int *remaining,
                           bool *on_line)
{
    size_t at = 0;
    for (size_t k = 1; k < n; k++)
        if (remaining[k] > remaining[at]) at = k;
    for (size_t k = 0; k < n; k++) on_line[k] = k == at;
    for (size_t k = 0; k < n_edges;
         k++) { /* the edges are sorted by `from`, and from < to, so the edges of a later box follow */
        const mp_block_edge *e = &edges[k];
        if ((size_t)e->from != at || rank[e->to] != rank[at] + 1 || remaining[e->to] != remaining[at] - 1) continue;
        at = (size_t)e->to;
        on_line[at] = true;
    }
}

/* Assigns slots (positions) to the boxes of every rank, from left to right. Each box gets the slot closest to its barycenter
 * that the boxes before it leave free. */
static void give_slots(const place *places, size_t n, int *slot)
{
    int next = 0;
    for (size_t k = 0; k < n; k++) {
        if (k == 0 || places[k].rank != places[k - 1].rank) next = 0;
        int wanted = places[k].main ? 0 : (int)floor(places[k].barycenter + 1e-9);
        slot[places[k].box] = wanted > next ? wanted : next;
        next = slot[places[k].box] + 1;
    }
}

/* Performs one sweep of the ordering. The order follows the barycenters of the neighbours above, below or both. */
static void sweep(place *places, size_t n, const mp_block_edge *edges, size_t n_edges, bool above, bool below, double *sum,
                  int *count, int *slot)
{
    for (size_t k = 0; k < n; k++) sum[k] = count[k] = 0;
    for (size_t k = 0; k < n_edges; k++) {
        if (above) sum[edges[k].to] += slot[edges[k].from], count[edges[k].to]++;
        if (below) sum[edges[k].from] += slot[edges[k].to], count[edges[k].from]++;
    }
    for (size_t k = 0; k < n; k++) {
        int box = places[k].box;
        places[k].barycenter = count[box] ? sum[box] / count[box] : slot[box];
    }
    qsort(places, n, sizeof *places, by_place);
    give_slots(places, n, slot);
}

/* Converts ranks (lengths of longest paths) to rows. If a rank has too many slots (positions), the gaps between its boxes are
 * removed; if it still has too many, it is divided into several rows. */
static size_t rows_of_ranks(const place *places, size_t n, int *row, int *slot)
{
    size_t n_rows = 0;
    for (size_t k = 0, end; k < n; k = end, n_rows++) {
        for (end = k; end < n && places[end].rank == places[k].rank;) end++;
        bool wide = slot[places[end - 1].box] >= MP_ROW_SLOTS;
        for (size_t i = k; i < end; i++) {
            int box = places[i].box, number = (int)(i - k);
            if (wide) slot[box] = number % MP_ROW_SLOTS;
            row[box] = (int)n_rows + (wide ? number / MP_ROW_SLOTS : 0);
        }
        n_rows = (size_t)row[places[end - 1].box];
    }
    return n_rows;
}

mp_status mp_placement_rows(size_t n, const mp_block_edge *edges, size_t n_edges, int *row, int *slot, size_t *n_rows,
                            mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    place *places = mp_pool_alloc(pool, n, sizeof *places);
    int *rank = mp_pool_alloc(pool, n, sizeof *rank), *remaining = mp_pool_alloc(pool, n, sizeof *remaining);
    int *count = mp_pool_alloc(pool, n, sizeof *count);
    double *sum = mp_pool_alloc(pool, n, sizeof *sum);
    bool *on_line = mp_pool_alloc(pool, n, sizeof *on_line);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for a drawing of %zu boxes", n);
    find_ranks(n, edges, n_edges, rank, remaining);
    find_main_line(n, edges, n_edges, rank, remaining, on_line);
    for (size_t k = 0; k < n; k++)
        places[k] = (place){.box = (int)k, .rank = rank[k], .main = on_line[k], .remaining = remaining[k]};
    qsort(places, n, sizeof *places, by_place);
    give_slots(places, n, slot);
    for (int k = 0; k < 3; k++) {
        sweep(places, n, edges, n_edges, true, false, sum, count, slot);
        sweep(places, n, edges, n_edges, true, true, sum, count, slot);
    }
    sweep(places, n, edges, n_edges, true, false, sum, count, slot);
    *n_rows = rows_of_ranks(places, n, row, slot);
    return MP_OK;
}

/* Divides the rows into columns of about `target` height, from four fifths of it to slightly above. Columns end where the
 * fewest wires cross. */
static size_t cut(size_t n, const double *heights, const double *widths, const size_t *crossing, double target, int *column,
                  double *width, double *height)
{
    size_t n_columns = 0;
    *width = *height = 0;
    for (size_t first = 0, end; first < n; first = end, n_columns++) {
        double filled = 0, widest = 0;
        size_t best = n;
        for (end = first; end < n && (end == first || filled + heights[end] <= 1.08 * target); end++) {
            filled += heights[end];
            if (filled >= 0.8 * target && (best == n || crossing[end] <= crossing[best])) best = end;
        }
        if (end < n && best < n) end = best + 1;
        filled = 0;
        for (size_t r = first; r < end; r++) {
            column[r] = (int)n_columns;
            filled += heights[r];
            widest = fmax(widest, widths[r]);
        }
        *width += widest;
        *height = fmax(*height, filled);
    }
    return n_columns;
}

size_t mp_placement_wrap(size_t n, const double *heights, const double *widths, const size_t *crossing, double aspect,
                         int *column)
{
    enum { PARTS = 4 }; /* few rows do not divide evenly, so column heights for PARTS fractions of a column are tried too */
    double total = 0, area = 0, width, height, best = INFINITY, target = 0;
    for (size_t r = 0; r < n; r++) {
        total += heights[r];
        area += heights[r] * widths[r];
    }
    for (size_t c = PARTS; c <= PARTS * n; c++) {
        const double tried = PARTS * total / (double)c;
        cut(n, heights, widths, crossing, tried, column, &width, &height);
        const double empty = log(
            width * height / fmax(area, 1)); /* logarithm of the drawing's area relative to the rows' area; 0: no white space */
        double off = fabs(log(width / fmax(height, 1) / aspect)) + 2 * empty;
        if (off < best) {
            best = off;
            target = tried;
        } else if (width > 4 * aspect * height) {
            break;
        }
    }
    return n ? cut(n, heights, widths, crossing, target, column, &width, &height) : 0;
}

typedef struct bundler {
    const mp_block_edge *edges;
    const bool *routed;
    const int *row;
    size_t n_edges;
    size_t *first;             /* per box: index of its first edge. One further element marks the end */
    int *bundle, *next, *last; /* next: per box, the box that joined its bundle after it (-1: none). last: per bundle, the box
                                  that joined it last */
} bundler;

static int by_ends(const void *a, const void *b)
{
    const mp_block_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static bool reads(const bundler *b, int from, int to)
{
    const mp_block_edge wanted = {from, to};
    return bsearch(&wanted, b->edges + b->first[from], b->first[from + 1] - b->first[from], sizeof wanted, by_ends) != NULL;
}

/* True if the reader reads all boxes of a bundle that are in earlier rows. */
static bool reads_all_above(const bundler *b, int reader, int bundle)
{
    for (int m = bundle; m >= 0; m = b->next[m])
        if (b->row[m] < b->row[reader] && !reads(b, m, reader)) return false;
    return true;
}

/* True if a box can join a bundle (boxes whose wires share a lane). Every reader of the bundle in a later row must read the
 * box, and every reader of the box must read all boxes of the bundle in earlier rows. */
static bool suits(const bundler *b, int box, int bundle)
{
    for (size_t k = b->first[box]; k < b->first[box + 1]; k++)
        if (b->routed[k] && !reads_all_above(b, b->edges[k].to, bundle)) return false;
    for (int m = bundle; m >= 0; m = b->next[m])
        for (size_t k = b->first[m]; k < b->first[m + 1]; k++)
            if (b->routed[k] && b->row[b->edges[k].to] > b->row[box] && !reads(b, box, b->edges[k].to)) return false;
    return true;
}

mp_status mp_placement_bundles(size_t n, const mp_block_edge *edges, size_t n_edges, const bool *routed, const int *row,
                               int *bundle, mp_error *err)
{
    bundler b = {.edges = edges, .routed = routed, .row = row, .n_edges = n_edges, .bundle = bundle};
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    int *newest = mp_pool_alloc(pool, n, sizeof *newest); /* per box: 1 + the latest bundle from which the box reads; 0: none */
    b.first = mp_pool_alloc(pool, n + 1, sizeof *b.first);
    b.next = mp_pool_alloc(pool, n, sizeof *b.next);
    b.last = mp_pool_alloc(pool, n, sizeof *b.last);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "no memory for a drawing of %zu boxes", n);
    for (size_t k = 0; k < n_edges; k++) b.first[edges[k].from + 1] = k + 1;
    for (size_t k = 0; k < n; k++) {
        if (b.first[k + 1] < b.first[k])
            b.first[k + 1] = b.first[k]; /* a box without outgoing edges gets an empty range of edges */
        bundle[k] = b.last[k] = (int)k;
        b.next[k] = -1;
    }
    for (size_t k = 0; k < n; k++) {
        int to = -1; /* first box that reads this box through a wire beside a column; -1: none */
        for (size_t e = b.first[k]; e < b.first[k + 1] && to < 0; e++)
            if (routed[e]) to = edges[e].to;
        if (to < 0) continue;
        const int other = newest[to] - 1;
        if (other >= 0 && suits(&b, (int)k, other)) {
            bundle[k] = other;
            b.next[b.last[other]] = (int)k;
            b.last[other] = (int)k;
        }
        for (size_t e = b.first[k]; e < b.first[k + 1]; e++)
            if (routed[e]) newest[edges[e].to] = bundle[k] + 1;
    }
    return MP_OK;
}
