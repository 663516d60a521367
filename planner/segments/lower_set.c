/* lower_set.c - the searcher `lower-set`, after Kusumoto et al. 2019: sequences of lower sets of the forward graph. It uses all
 * lower sets if there are not too many. Otherwise it uses the pruned family of the paper and the prefixes of several
 * topological orders.
 *
 * The vertices are the forward nodes, weighted by the bytes of their non-static outputs. Two models of memory are tried. The
 * paper's model counts the bytes of each value of a segment twice, for the value and its gradient. The second model counts only
 * the values of a segment that backward reads. */
#include "planner/search/searchers.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "planner/math/splitmix.h"
#include "planner/order/segment_schedule.h"
#include "planner/segments/lower_set.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    LOWER_SET_ALL = 1024,   /* all lower sets are enumerated if there are at most 1024 */
    LOWER_SET_PRUNED = 700, /* most lower sets of the pruned family */
    LOWER_SET_ORDERS = 16,  /* topological orders whose prefixes are added to the family of lower sets */
};

typedef struct lower_set {
    mp_search *search;
    const mp_graph *graph;
    mp_dag *dag;
    int *segment;
    bool *keep;
    size_t n_tried, capacity;
    struct tried {
        uint64_t hash; /* hash of a sequence of lower sets whose schedule was offered */
        int64_t peak_bytes;
    } * tried;
} lower_set;

/* Returns the element of `tried` for a sequence of lower sets. Adds the element, with peak_bytes -1, if it is missing. If the
 * schedule of the sequence was offered before, peak_bytes is its peak. */
static struct tried *note(lower_set *x, const mp_lower_sets *sets, const int *sequence, int n)
{
    const size_t n_words = (size_t)sets->n_words;
    uint64_t hash = 0;
    for (int i = 0; i < n; i++)
        hash = mp_splitmix_mix(hash + mp_bits_hash(sets->bits + (size_t)sequence[i] * n_words, n_words));
    for (size_t i = 0; i < x->n_tried; i++)
        if (x->tried[i].hash == hash) return &x->tried[i];
    if (!mp_grow(&x->tried, &x->capacity, x->n_tried + 1, sizeof *x->tried)) return NULL;
    x->tried[x->n_tried] = (struct tried){hash, -1};
    return &x->tried[x->n_tried++];
}

/* Offers the schedule of a sequence of lower sets, unless it was offered before. A node belongs to the segment of the first
 * lower set that contains it. Storages that another segment reads are kept. */
static mp_status offer(void *data, const mp_lower_sets *sets, const int *sequence, int n, int64_t *peak_bytes, mp_error *err)
{
    lower_set *x = data;
    MP_OWNED mp_step *steps = NULL;
    size_t n_steps = 0;
    struct tried *noted = note(x, sets, sequence, n);
    if (!noted) return MP_NO_MEMORY(err);
    *peak_bytes = noted->peak_bytes;
    if (noted->peak_bytes >= 0) return MP_OK;
    memset(x->keep, 0, x->graph->n_storages * sizeof *x->keep);
    for (int v = 0; v < x->dag->n_vertices; v++) {
        int low = 0, high = n - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (mp_lower_set_has(sets, sequence[middle], v))
                high = middle;
            else
                low = middle + 1;
        }
        x->segment[x->dag->node[v]] = low;
    }
    for (size_t s = 0; s < x->graph->n_storages; s++) {
        const int p = x->graph->producer[s];
        if (p < 0 || x->dag->vertex[p] < 0) continue;
        for (int r = x->graph->readers_start[s]; r < x->graph->readers_start[s + 1]; r++) {
            const int reader = x->graph->readers[r];
            if (x->dag->vertex[reader] >= 0 && x->segment[reader] > x->segment[p]) x->keep[s] = true;
        }
    }
    mp_segment_keep_small(x->graph, x->keep);
    MP_CHECK(mp_segment_schedule(x->graph, x->segment, n, x->keep, &steps, &n_steps, err));
    MP_CHECK(mp_search_offer(x->search, steps, n_steps, peak_bytes, NULL, err));
    noted->peak_bytes = *peak_bytes;
    return MP_OK;
}

/* Tries the ladder of model budgets (lower_set.h) with one model of memory. */
static mp_status try_model(lower_set *x, const int64_t *ticks, const int64_t *segment_bytes, mp_error *err)
{
    MP_OWNED_BY(mp_lower_sets_free) mp_lower_sets *sets = NULL;
    const mp_lower_set_graph graph = {x->dag, x->dag->bytes, ticks, segment_bytes};
    mp_status st = mp_lower_sets_all(&graph, LOWER_SET_ALL, &sets, err);
    if (st == MP_LIMIT) st = mp_lower_sets_pruned(&graph, LOWER_SET_ORDERS, LOWER_SET_PRUNED, &sets, err);
    const int64_t moves = (mp_search_moves(x->search) - 1) / 2, budget_bytes = mp_search_request(x->search)->budget_bytes;
    if (st == MP_OK) st = mp_lower_set_ladder(x->search, sets, budget_bytes, moves, offer, x, err);
    return st;
}

static void forget_tried(lower_set *x)
{
    mp_free(x->tried);
}

mp_status mp_run_lower_set(mp_search *search, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_dag_free) mp_dag *dag = NULL;
    MP_CLEARED_BY(forget_tried) lower_set x = {.search = search, .graph = mp_search_request(search)->graph};
    const size_t n_nodes = x.graph->n_nodes;
    bool backward = false;
    for (size_t i = 0; i < n_nodes; i++) backward |= x.graph->nodes[i].phase == MP_PHASE_BACKWARD;
    MP_CHECK(mp_dag_build(x.graph, &dag, err));
    x.dag = dag;
    MP_ENSURE(backward && x.dag->n_vertices > 0, err, MP_NOT_APPLICABLE,
              "%s has no backward phase, so there is nothing to recompute", x.graph->name);
    int64_t *ticks = mp_pool_alloc(pool, (size_t)x.dag->n_vertices, sizeof *ticks);
    int64_t *needed_bytes = mp_pool_alloc(pool, (size_t)x.dag->n_vertices, sizeof *needed_bytes);
    x.segment = mp_pool_alloc(pool, n_nodes, sizeof *x.segment);
    x.keep = mp_pool_alloc(pool, x.graph->n_storages, sizeof *x.keep);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory");
    mp_lower_set_weights(x.graph, x.dag, ticks, needed_bytes);
    MP_CHECK(try_model(&x, ticks, NULL, err));
    return try_model(&x, ticks, needed_bytes, err);
}
