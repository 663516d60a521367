/* placement_bundles.c - boxes joined one after the other, each to the newest bundle that suits it. */
#include "formats/drawings/placement_bundles.h"

#include <stdlib.h>

typedef struct bundler {
    const mp_block_edge *edges;
    const bool *routed;
    const int *row;
    size_t n_edges;
    size_t *first; /* per box, and one more: where its edges begin */
    int *bundle, *next,
        *last; /* per box: of its bundle, the one that joined after it (-1: none); per bundle: who joined last */
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

/* Whether a box reads all of a bundle that stand above it. */
static bool reads_all_above(const bundler *b, int reader, int bundle)
{
    for (int m = bundle; m >= 0; m = b->next[m])
        if (b->row[m] < b->row[reader] && !reads(b, m, reader)) return false;
    return true;
}

/* Whether a box can join: those who tap the bundle below it read it, and those who read it read all that joined before. */
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
    mp_status st = MP_OK;
    bundler b = {.edges = edges, .routed = routed, .row = row, .n_edges = n_edges, .bundle = bundle};
    int *newest = mp_alloc(n, sizeof *newest); /* per box: the bundle that was last to reach it, + 1 */
    b.first = mp_alloc(n + 1, sizeof *b.first);
    b.next = mp_alloc(n, sizeof *b.next);
    b.last = mp_alloc(n, sizeof *b.last);
    MP_REQUIRE(newest && b.first && b.next && b.last, err, MP_NOMEM, "no memory for a drawing of %zu boxes", n);
    for (size_t k = 0; k < n_edges; k++) b.first[edges[k].from + 1] = k + 1;
    for (size_t k = 0; k < n; k++) {
        if (b.first[k + 1] < b.first[k]) b.first[k + 1] = b.first[k]; /* it has no edges */
        bundle[k] = b.last[k] = (int)k;
        b.next[k] = -1;
    }
    for (size_t k = 0; k < n; k++) {
        int to = -1; /* its first reader on a wire */
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
done:
    mp_free(newest);
    mp_free(b.first);
    mp_free(b.next);
    mp_free(b.last);
    return st;
}
