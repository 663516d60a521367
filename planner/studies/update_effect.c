/* update_effect.c - measures keep-all with updates that are fused into backward: its peak, gradient bytes and memory traffic.
 * Each update runs as early as possible. */
#include "memplan/studies/update_effect.h"

#include "estimator/graph/cache_traffic.h"
#include "planner/order/updates.h"

/* Computes, per step, the bytes of the weight gradients that are live. `live` has one more entry than there are steps. */
static void count_gradients(const mp_graph *graph, const mp_timeline *timeline, int64_t *live)
{
    for (size_t k = 0; k < timeline->n_spans; k++) {
        const mp_span *span = &timeline->spans[k];
        const mp_storage *s = &graph->storages[span->storage];
        if (s->kind != MP_KIND_GRADIENT) continue;
        live[span->begin] += s->payload_bytes;
        live[span->end] -= s->payload_bytes;
    }
    for (size_t t = 1; t < timeline->n_steps; t++) live[t] += live[t - 1];
}

mp_status mp_update_effect_of(const mp_graph *graph, int64_t cache_bytes, mp_update_effect *out, mp_error *err)
{
    MP_OWNED mp_step *steps = NULL;
    MP_OWNED int64_t *live = NULL;
    int64_t always = 0;
    MP_OWNED_BY(mp_timeline_free) mp_timeline *timeline = NULL;
    size_t n;
    mp_update_effect e = {0};
    MP_CHECK(mp_updates_place_early(graph, &steps, &n, err));
    MP_CHECK(mp_timeline_build(graph, steps, n, &timeline, err));
    MP_ENSURE(live = mp_alloc(n + 1, sizeof *live), err, MP_NOMEM, "%zu steps", n);
    count_gradients(graph, timeline, live);
    /* gradients that are accumulated over several micro-batches are static, so they are always live */
    for (size_t s = 0; s < graph->n_storages; s++) {
        const mp_storage *x = &graph->storages[s];
        if (x->kind != MP_KIND_GRADIENT) continue;
        if (mp_storage_is_static(x)) always += x->payload_bytes;
        if (x->payload_bytes > e.largest_gradient_bytes) e.largest_gradient_bytes = x->payload_bytes;
    }
    e.peak_bytes = timeline->peak_bytes;
    e.gradient_bytes = always;
    for (size_t t = 0; t < n; t++)
        if (always + live[t] > e.gradient_bytes) e.gradient_bytes = always + live[t];
    e.peak_gradient_bytes = always + (timeline->peak_step >= 0 ? live[timeline->peak_step] : 0);
    MP_CHECK(mp_cache_traffic(graph, steps, n, cache_bytes, &e.moved_bytes, err));
    *out = e;
    return MP_OK;
}
