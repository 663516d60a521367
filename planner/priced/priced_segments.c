/* priced_segments.c - where segments of the forward list end, and what is kept there. */
#include "planner/priced/priced_segments.h"

mp_status mp_priced_segments_new(const mp_graph *graph, mp_priced_segments **out, mp_error *err)
{
    mp_status st = MP_OK;
    mp_priced_segments *x = mp_alloc(1, sizeof *x);
    MP_REQUIRE(x, err, MP_NOMEM, "out of memory for the segments of %s", graph->name);
    MP_TRY(mp_boundaries_new(graph, &x->boundaries, err));
    const size_t n = (size_t)x->boundaries->n;
    x->produced_bytes = mp_alloc(n, sizeof *x->produced_bytes);
    x->ends = mp_alloc(n, sizeof *x->ends);
    x->n_ends = mp_alloc(n + 1, sizeof *x->n_ends);
    MP_REQUIRE(x->produced_bytes && x->ends && x->n_ends, err, MP_NOMEM, "out of memory for the segments of %s", graph->name);
    for (size_t s = 0; s < graph->n_storages; s++) {
        if (x->boundaries->birth[s] < 0) continue;
        x->produced_bytes[x->boundaries->birth[s]] += graph->storages[s].bytes;
        x->total_bytes += graph->storages[s].bytes;
    }
    *out = x;
    x = NULL;
done:
    mp_priced_segments_free(x);
    return st;
}

void mp_priced_segments_free(mp_priced_segments *x)
{
    if (!x) return;
    mp_boundaries_free(x->boundaries);
    mp_free(x->produced_bytes);
    mp_free(x->ends);
    mp_free(x->n_ends);
    mp_free(x);
}

/* A segment ends where the least crosses, between 3/4 and 5/4 of the bytes that segments are to produce. */
void mp_priced_segments_cut(mp_priced_segments *x, int64_t size_bytes)
{
    const mp_boundaries *b = x->boundaries;
    int64_t sum = 0, since = 0;
    int best = -1;
    const int64_t least = size_bytes - size_bytes / 4,
                  most = size_bytes > INT64_MAX / 2 ? INT64_MAX : size_bytes + size_bytes / 4;
    for (int p = 0; p < b->n; p++) {
        x->ends[p] = false;
        sum += x->produced_bytes[p];
        since += x->produced_bytes[p];
        if (sum >= least && (best < 0 || b->crossing_bytes[p] <= b->crossing_bytes[best])) {
            best = p;
            since = 0;
        }
        if (best < 0 || sum < most) continue;
        x->ends[best] = true;
        sum = since;
        best = -1;
    }
}

void mp_priced_segments_keep(mp_priced_segments *x, mp_cut_labels *labels)
{
    const mp_boundaries *b = x->boundaries;
    for (int p = 0; p < b->n; p++) x->n_ends[p + 1] = x->n_ends[p] + x->ends[p];
    for (int k = 0; k < labels->forward_end; k++) labels->is_kept[k] = false;
    for (size_t s = 0; s < labels->graph->n_storages; s++) {
        const int birth = b->birth[s], last = b->last[s], k = labels->producer[s];
        if (k >= 0 && birth >= 0 && last > birth && x->n_ends[last] > x->n_ends[birth]) labels->is_kept[k] = true;
    }
}
