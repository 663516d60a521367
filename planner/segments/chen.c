/* chen.c - the searcher `chen`: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174).
 *
 * The forward list is cut into segments at some of its cut tensors, and only these tensors are kept. Each segment is recomputed
 * when backward reaches it. There are two ways to choose the cut tensors. The first takes every k-th of the m cut tensors, k =
 * sqrt(m). The second is a greedy search: it adds up the bytes of outputs along the list. When the sum exceeds b, the segment
 * ends at the next cut tensor. The search tries a range of values b.
 *
 * If a network has few cut tensors, a variant is tried too in which a segment may end at every position of the list. All
 * storages that cross the end are then kept. */
#include "planner/search/searchers.h"

#include "estimator/base/integers.h"
#include "planner/order/boundaries.h"
#include "planner/order/dag.h"

/* Settings of this file. Nobody measured their effect one by one. */
enum {
    CHEN_SIZES = 40,      /* segment sizes (bytes) that the searcher `chen` tries */
    CHEN_SIZE_SHARE = 82, /* each segment size in % of the previous one, down to 1/2,800 of all bytes */
};

typedef struct chen {
    mp_search *search;
    mp_boundaries *boundaries;
    bool *allowed, *ends;    /* per position in the forward list. allowed: a segment may end here; ends: a segment ends here */
    int64_t *produced_bytes; /* per position: bytes of the non-static outputs of its node */
} chen;

static mp_status offer(chen *x, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    size_t n = 0;
    MP_CHECK(mp_boundaries_schedule(x->boundaries, x->ends, NULL, &steps, &n, err));
    return mp_search_offer(x->search, steps, n, NULL, NULL, err);
}

static mp_status every_kth(chen *x, mp_error *err)
{
    int n_allowed = 0, seen = 0;
    for (int p = 0; p < x->boundaries->n; p++) n_allowed += x->allowed[p];
    int k = 1;
    while ((k + 1) * (k + 1) <= n_allowed) k++;
    for (int p = 0; p < x->boundaries->n; p++) x->ends[p] = x->allowed[p] && ++seen % k == 0;
    return offer(x, err);
}

static mp_status greedy(chen *x, int64_t segment_bytes, mp_error *err)
{
    int64_t sum = 0;
    for (int p = 0; p < x->boundaries->n; p++) {
        sum += x->produced_bytes[p];
        x->ends[p] = x->allowed[p] && sum > segment_bytes;
        if (x->ends[p]) sum = 0;
    }
    return offer(x, err);
}

static mp_status sweep(chen *x, mp_error *err)
{
    int64_t size = 0;
    for (int p = 0; p < x->boundaries->n; p++) size += x->produced_bytes[p];
    MP_CHECK(every_kth(x, err));
    for (int i = 0; i < CHEN_SIZES && !mp_search_stopped(x->search); i++) {
        size = mp_percent(size, CHEN_SIZE_SHARE);
        MP_CHECK(greedy(x, size, err));
    }
    return MP_OK;
}

mp_status mp_run_chen(mp_search *search, mp_error *err)
{
    MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
    MP_OWNED_BY(mp_boundaries_free) mp_boundaries *boundaries = NULL;
    const mp_graph *graph = mp_search_request(search)->graph;
    chen x = {.search = search};
    size_t n_cuts = 0;
    MP_CHECK(mp_boundaries_new(graph, &boundaries, err));
    x.boundaries = boundaries;
    const size_t n = (size_t)x.boundaries->n;
    x.allowed = mp_pool_alloc(pool, n, sizeof *x.allowed);
    x.ends = mp_pool_alloc(pool, n, sizeof *x.ends);
    x.produced_bytes = mp_pool_alloc(pool, n, sizeof *x.produced_bytes);
    int *cuts = mp_pool_alloc(pool, graph->n_storages, sizeof *cuts);
    MP_ENSURE(!mp_pool_failed(pool), err, MP_NOMEM, "out of memory for the segments of %s", graph->name);
    for (size_t s = 0; s < graph->n_storages; s++)
        if (x.boundaries->birth[s] >= 0) x.produced_bytes[x.boundaries->birth[s]] += graph->storages[s].bytes;
    MP_CHECK(mp_cut_tensors(graph, cuts, &n_cuts, err));
    for (size_t i = 0; i < n_cuts; i++) x.allowed[x.boundaries->birth[cuts[i]]] = true;
    MP_CHECK(sweep(&x, err));
    for (size_t p = 0; p < n; p++) x.allowed[p] = true;
    if (!mp_search_stopped(search)) MP_CHECK(sweep(&x, err));
    return MP_OK;
}
