/* lower_set_family.c - builds families of lower sets, which are stored as bit sets, and finds the transitions between lower
 * sets.
 *
 * All lower sets are generated from the empty set, in the order of their cardinality. If a lower set contains all predecessors
 * of a vertex, adding this vertex gives a lower set of the next cardinality. A hash table recognises duplicates. In this order
 * no transition is missed. */
#include "planner/segments/lower_set.h"

#include <stdlib.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "planner/math/bits.h"

/* A family of lower sets while it is being built. */
typedef struct builder {
    const mp_lower_set_graph *graph;
    int n_vertices, n_words;
    int n;
    uint64_t *bits;
    size_t capacity;
    int *table; /* hash table with open addressing: 1 + index of the set; 0: the slot is free */
    size_t table_size;
    uint64_t *fresh; /* the set being added */
} builder;

static const uint64_t *set_of(const builder *b, int k)
{
    return b->bits + (size_t)k * (size_t)b->n_words;
}

static mp_status begin_family(builder *b, const mp_lower_set_graph *graph, int limit, mp_error *err)
{
    *b = (builder){.graph = graph, .n_vertices = graph->dag->n_vertices};
    b->n_words = b->n_vertices / 64 + 1;
    for (b->table_size = 64; b->table_size < 4 * (size_t)limit;) b->table_size *= 2;
    b->table = mp_alloc(b->table_size, sizeof *b->table);
    b->fresh = mp_alloc((size_t)b->n_words, sizeof *b->fresh);
    return b->table && b->fresh ? MP_OK : MP_NO_MEMORY(err);
}

static void drop(builder *b)
{
    mp_free(b->bits);
    mp_free(b->table);
    mp_free(b->fresh);
}

/* Adds the set b->fresh, unless the family contains it already. */
static mp_status add(builder *b, mp_error *err)
{
    const size_t bytes = (size_t)b->n_words * sizeof *b->bits;
    size_t at = mp_bits_hash(b->fresh, (size_t)b->n_words) & (b->table_size - 1);
    for (; b->table[at]; at = (at + 1) & (b->table_size - 1))
        if (!memcmp(set_of(b, b->table[at] - 1), b->fresh, bytes)) return MP_OK;
    if (!mp_grow(&b->bits, &b->capacity, (size_t)(b->n + 1) * (size_t)b->n_words, sizeof *b->bits)) return MP_NO_MEMORY(err);
    memcpy(b->bits + (size_t)b->n * (size_t)b->n_words, b->fresh, bytes);
    b->table[at] = ++b->n;
    return MP_OK;
}

/* ---- bytes and ticks of one lower set, in the notation of lower_set.h ---- */

typedef struct sums {
    /* segment_bytes: 2 M(L); ticks: T(L); outside_bytes: M(d+(L) \ L) + M(d-(d+(L)) \ L) */
    int64_t segment_bytes, ticks, outside_bytes;
    int cardinality;
} sums;

/* Computes bytes and ticks of one lower set, and lists its boundary. `mark` is scratch, one entry per vertex, all zero on entry
 * and on return. */
static sums measure(const mp_lower_set_graph *graph, const uint64_t *bits, char *mark, int *boundary, int *n_boundary)
{
    const mp_dag *dag = graph->dag;
    sums sum = {0};
    *n_boundary = 0;
    for (int v = 0; v < dag->n_vertices; v++) {
        bool reads_inside = false;
        if (mp_bits_has(bits, v)) {
            bool is_boundary = false;
            for (int e = dag->successors_start[v]; e < dag->successors_start[v + 1]; e++)
                is_boundary |= !mp_bits_has(bits, dag->successors[e]);
            if (is_boundary) boundary[(*n_boundary)++] = v;
            sum.segment_bytes += graph->segment_bytes ? graph->segment_bytes[v] : 2 * graph->bytes[v];
            sum.ticks += graph->ticks[v];
            sum.cardinality++;
            continue;
        }
        for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
            reads_inside |= mp_bits_has(bits, dag->predecessors[e]);
        if (!reads_inside) continue; /* v is in d+(L) \ L only if it reads a vertex of L */
        mark[v] |= 1;
        for (int e = dag->predecessors_start[v]; e < dag->predecessors_start[v + 1]; e++)
            if (!mp_bits_has(bits, dag->predecessors[e])) mark[dag->predecessors[e]] |= 2;
    }
    for (int v = 0; v < dag->n_vertices; v++) {
        sum.outside_bytes += graph->bytes[v] * ((mark[v] & 1) + (mark[v] >> 1));
        mark[v] = 0;
    }
    return sum;
}

static int by_cost(const void *x, const void *y)
{
    const mp_lower_set_pair *a = x, *b = y;
    if (a->cost_bytes != b->cost_bytes) return a->cost_bytes < b->cost_bytes ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

static bool includes(const uint64_t *large, const uint64_t *small, int n_words)
{
    for (int w = 0; w < n_words; w++)
        if (small[w] & ~large[w]) return false;
    return true;
}

/* Finds all transitions between the sets of a family that is sorted by cardinality. */
static mp_status find_pairs(const mp_lower_set_graph *graph, mp_lower_sets *sets, mp_error *err)
{
    const int n_words = sets->n_words;
    size_t n_pairs = 0, capacity = 0;
    int n_boundary;
    MP_OWNED sums *sum = mp_alloc((size_t)sets->n, sizeof *sum);
    MP_OWNED char *mark = mp_alloc((size_t)sets->n_vertices, sizeof *mark);
    MP_OWNED int *boundary = mp_alloc((size_t)sets->n_vertices, sizeof *boundary);
    sets->pairs_start = mp_alloc((size_t)sets->n + 1, sizeof *sets->pairs_start);
    MP_ENSURE(sum && mark && boundary && sets->pairs_start, err, MP_NOMEM, "out of memory");
    for (int to = 0; to < sets->n; to++) {
        const uint64_t *large = sets->bits + (size_t)to * (size_t)n_words;
        sum[to] = measure(graph, large, mark, boundary, &n_boundary);
        sets->pairs_start[to] = n_pairs;
        for (int from = to - 1; from >= 0; from--) {
            const uint64_t *small = sets->bits + (size_t)from * (size_t)n_words;
            if (!includes(large, small, n_words)) continue;
            MP_ENSURE(mp_grow(&sets->pairs, &capacity, n_pairs + 1, sizeof *sets->pairs), err, MP_NOMEM, "out of memory");
            mp_lower_set_pair *pair = &sets->pairs[n_pairs++];
            *pair = (mp_lower_set_pair){.from = from,
                                        .cost_bytes = sum[to].segment_bytes - sum[from].segment_bytes + sum[to].outside_bytes,
                                        .ticks = sum[to].ticks - sum[from].ticks};
            for (int i = 0; i < n_boundary; i++) {
                if (mp_bits_has(small, boundary[i])) continue;
                pair->kept_bytes += graph->bytes[boundary[i]];
                pair->ticks -= graph->ticks[boundary[i]];
            }
        }
        if (n_pairs > sets->pairs_start[to])
            qsort(sets->pairs + sets->pairs_start[to], n_pairs - sets->pairs_start[to], sizeof *sets->pairs, by_cost);
    }
    sets->pairs_start[sets->n] = n_pairs;
    return MP_OK;
}

/* Finishes a family: finds its transitions and returns it. The sets are sorted by cardinality. Sets of equal cardinality are in
 * the order in which they were added. */
static mp_status finish(builder *b, mp_lower_sets **out, mp_error *err)
{
    const size_t bytes = (size_t)b->n_words * sizeof *b->bits;
    MP_OWNED int *start = mp_alloc((size_t)b->n_vertices + 2, sizeof *start);
    MP_OWNED_BY(mp_lower_sets_free) mp_lower_sets *sets = mp_alloc(1, sizeof *sets);
    if (sets) sets->bits = mp_alloc((size_t)b->n, bytes);
    MP_ENSURE(start && sets && sets->bits, err, MP_NOMEM, "out of memory");
    sets->n_vertices = b->n_vertices;
    sets->n_words = b->n_words;
    sets->n = b->n;
    for (int k = 0; k < b->n; k++) start[mp_bits_count(set_of(b, k), (size_t)b->n_words) + 1]++;
    for (int c = 0; c <= b->n_vertices; c++) start[c + 1] += start[c];
    for (int k = 0; k < b->n; k++) {
        const int at = start[mp_bits_count(set_of(b, k), (size_t)b->n_words)]++;
        memcpy(sets->bits + (size_t)at * (size_t)b->n_words, set_of(b, k), bytes);
    }
    MP_CHECK(find_pairs(b->graph, sets, err));
    *out = sets;
    sets = NULL;
    return MP_OK;
}

mp_status mp_lower_sets_all(const mp_lower_set_graph *graph, int limit, mp_lower_sets **out, mp_error *err)
{
    const mp_dag *dag = graph->dag;
    MP_CLEARED_BY(drop) builder b = {0};
    MP_CHECK(begin_family(&b, graph, limit, err));
    MP_CHECK(add(&b, err)); /* the empty set */
    for (int k = 0; k < b.n; k++)
        for (int v = 0; v < b.n_vertices; v++) {
            bool may_join = !mp_bits_has(set_of(&b, k), v);
            for (int e = dag->predecessors_start[v]; may_join && e < dag->predecessors_start[v + 1]; e++)
                may_join = mp_bits_has(set_of(&b, k), dag->predecessors[e]);
            if (!may_join) continue;
            memcpy(b.fresh, set_of(&b, k), (size_t)b.n_words * sizeof *b.fresh);
            mp_bits_add(b.fresh, v);
            MP_CHECK(add(&b, err));
            if (b.n > limit) return MP_LIMIT; /* the error has no message, because the caller then uses the pruned family */
        }
    return finish(&b, out, err);
}

/* ---- the pruned family ---- */

/* A selection from a sequence of lower sets, which the caller passes one at a time. The sequence is divided into ranges. From
 * each range, the set with the fewest boundary bytes is added to the family; of equal sets the last. */
typedef struct thinning {
    /* stretch: number of sets in a range; seen: number of sets of the present range that were passed so far */
    int stretch, seen;
    int64_t best_bytes;
    uint64_t *best;
} thinning;

static mp_status end_stretch(builder *b, thinning *t, mp_error *err)
{
    if (t->seen == 0) return MP_OK;
    t->seen = 0;
    memcpy(b->fresh, t->best, (size_t)b->n_words * sizeof *b->fresh);
    return add(b, err);
}

/* Passes the set `bits` to the selection. */
static mp_status show(builder *b, thinning *t, const uint64_t *bits, mp_error *err)
{
    const mp_dag *dag = b->graph->dag;
    int64_t bytes = 0;
    for (int v = 0; t->stretch > 1 && v < b->n_vertices; v++) {
        bool is_boundary = false;
        for (int e = dag->successors_start[v]; mp_bits_has(bits, v) && e < dag->successors_start[v + 1]; e++)
            is_boundary |= !mp_bits_has(bits, dag->successors[e]);
        if (is_boundary) bytes += b->graph->bytes[v];
    }
    if (t->seen == 0 || bytes <= t->best_bytes) {
        t->best_bytes = bytes;
        memcpy(t->best, bits, (size_t)b->n_words * sizeof *bits);
    }
    return ++t->seen == t->stretch ? end_stretch(b, t, err) : MP_OK;
}

/* Passes the sets L^v (v and its ancestors) to the selection, for all v in list order. Each set is found by a search from v, so
 * that only one set is in memory at a time. */
static mp_status add_ancestors(builder *b, thinning *t, uint64_t *bits, int *stack, mp_error *err)
{
    const mp_dag *dag = b->graph->dag;
    for (int v = 0; v < b->n_vertices; v++) {
        int n = 0;
        memset(bits, 0, (size_t)b->n_words * sizeof *bits);
        mp_bits_add(bits, v);
        stack[n++] = v;
        while (n) {
            const int w = stack[--n];
            for (int e = dag->predecessors_start[w]; e < dag->predecessors_start[w + 1]; e++)
                if (!mp_bits_has(bits, dag->predecessors[e])) {
                    mp_bits_add(bits, dag->predecessors[e]);
                    stack[n++] = dag->predecessors[e];
                }
        }
        MP_CHECK(show(b, t, bits, err));
    }
    return end_stretch(b, t, err);
}

static mp_status add_prefixes(builder *b, thinning *t, uint64_t *bits, const int *order, int limit, mp_error *err)
{
    memset(bits, 0, (size_t)b->n_words * sizeof *bits);
    for (int i = 0; i < b->n_vertices && b->n < limit; i++) {
        mp_bits_add(bits, order[i]);
        MP_CHECK(show(b, t, bits, err));
    }
    return end_stretch(b, t, err);
}

mp_status mp_lower_sets_pruned(const mp_lower_set_graph *graph, int n_orders, int limit, mp_lower_sets **out, mp_error *err)
{
    MP_CLEARED_BY(drop) builder b = {0};
    MP_CHECK(begin_family(&b, graph, limit + 4, err));
    MP_OWNED uint64_t *best = mp_alloc((size_t)b.n_words, sizeof *best), *bits = mp_alloc((size_t)b.n_words, sizeof *bits);
    MP_OWNED int *order = mp_alloc((size_t)b.n_vertices, sizeof *order);
    MP_ENSURE(best && bits && order, err, MP_NOMEM, "out of memory");
    /* The sets L^v may fill half of the `limit` on the number of sets, and so may the prefixes of the list. The prefixes of
     * other topological orders may fill the remainder. */
    thinning t = {.best = best, .stretch = b.n_vertices / (limit / 2 > 0 ? limit / 2 : 1) + 1};
    MP_CHECK(add(&b, err)); /* the empty set */
    for (int v = 0; v < b.n_vertices; v++) mp_bits_add(b.fresh, v);
    MP_CHECK(
        add(&b, err)); /* adds V, the set of all vertices, which is one of the sets L^v only if the graph has a single sink */
    MP_CHECK(add_ancestors(&b, &t, bits, order, err));
    for (int v = 0; v < b.n_vertices; v++) order[v] = v;
    MP_CHECK(add_prefixes(&b, &t, bits, order, limit, err));
    for (int k = 0; k < n_orders && b.n < limit; k++) {
        MP_CHECK(mp_dag_order(graph->dag, k, order, err));
        MP_CHECK(add_prefixes(&b, &t, bits, order, limit, err));
    }
    return finish(&b, out, err);
}

mp_status mp_lower_sets_prefixes(const mp_lower_set_graph *graph, const int *last, int n, mp_lower_sets **out, mp_error *err)
{
    MP_CLEARED_BY(drop) builder b = {0};
    MP_CHECK(begin_family(&b, graph, n + 2, err));
    MP_CHECK(add(&b, err)); /* the empty set */
    for (int i = 0, v = 0; i <= n; i++) {
        for (const int end = i < n ? last[i] : b.n_vertices - 1; v <= end; v++) mp_bits_add(b.fresh, v);
        MP_CHECK(add(&b, err));
    }
    return finish(&b, out, err);
}

void mp_lower_sets_free(mp_lower_sets *sets)
{
    if (!sets) return;
    mp_free(sets->bits);
    mp_free(sets->pairs_start);
    mp_free(sets->pairs);
    mp_free(sets);
}

void mp_lower_set_weights(const mp_graph *graph, const mp_dag *dag, int64_t *ticks, int64_t *needed_bytes)
{
    for (int v = 0; v < dag->n_vertices; v++) {
        const mp_alternative *alternative = &graph->nodes[dag->node[v]].alternatives[0];
        ticks[v] = alternative->ticks;
        needed_bytes[v] = 0;
        for (size_t i = 0; i < alternative->n_writes; i++) {
            const int s = alternative->writes[i];
            bool is_needed = false;
            if (mp_storage_is_static(&graph->storages[s])) continue;
            for (int r = graph->readers_start[s]; r < graph->readers_start[s + 1]; r++)
                is_needed |= graph->nodes[graph->readers[r]].phase != MP_PHASE_FORWARD;
            if (is_needed) needed_bytes[v] += graph->storages[s].bytes;
        }
    }
}
