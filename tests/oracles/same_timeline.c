/* same_timeline.c - compares spans, bytes per tier and step, and ticks. */
#include "tests/oracles/same_timeline.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "memplan/memory.h"
#include "tests/oracles/oracle_simulator.h"

void same_timeline(const mp_graph *graph, const mp_step *steps, size_t n, unsigned long long seed)
{
    mp_error err = {0};
    mp_timeline *tl = NULL;
    if (mp_timeline_build(graph, steps, n, &tl, &err) != MP_OK) fail_msg("seed %llu: %s", seed, err.message);
    simulation sim = simulate(graph, steps, n);
    if (tl->n_spans != sim.n_spans) fail_msg("seed %llu: %zu spans, not %zu", seed, tl->n_spans, sim.n_spans);
    for (size_t k = 0; k < sim.n_spans; k++) {
        mp_span a = tl->spans[k], b = sim.spans[k];
        if (a.storage != b.storage || a.begin != b.begin || a.end != b.end || a.takes_over != b.takes_over)
            fail_msg("seed %llu: span %zu is storage %d [%d, %d) over %d, not storage %d [%d, %d) over %d", seed, k, a.storage,
                     a.begin, a.end, a.takes_over, b.storage, b.begin, b.end, b.takes_over);
    }
    for (size_t m = 0; m < graph->n_tiers; m++) {
        const mp_tier_use *a = &tl->tiers[m], *b = &sim.tiers[m];
        for (int t = 0; t < (int)n; t++)
            if (a->live_bytes[t] != b->live_bytes[t])
                fail_msg("seed %llu: %lld live bytes of tier %zu in step %d, not %lld", seed, (long long)a->live_bytes[t], m, t,
                         (long long)b->live_bytes[t]);
        assert_true(a->static_bytes == b->static_bytes && a->peak_bytes == b->peak_bytes && a->peak_step == b->peak_step);
        assert_int_equal(mp_graph_static_bytes_in(graph, (int)m), b->static_bytes);
    }
    const mp_tier_use *device = &sim.tiers[MP_TIER_DEVICE];
    assert_true(tl->n_steps == n && tl->n_tiers == graph->n_tiers && tl->peak_step == device->peak_step);
    assert_true(tl->static_bytes == device->static_bytes && tl->peak_bytes == device->peak_bytes);
    if (tl->ticks != sim.ticks) fail_msg("seed %llu: %lld ticks, not %lld", seed, (long long)tl->ticks, (long long)sim.ticks);
    int64_t *between = mp_alloc(n + 1, sizeof *between);
    assert_non_null(between);
    mp_timeline_between(graph, tl, between);
    for (int t = 0; t <= (int)n; t++) {
        int64_t live = device->static_bytes; /* bytes live in the previous step and in this one */
        for (size_t k = 0; k < sim.n_spans; k++)
            if (sim.spans[k].begin < t && sim.spans[k].end > t && graph->storages[sim.spans[k].storage].tier == MP_TIER_DEVICE)
                live += graph->storages[sim.spans[k].storage].bytes;
        for (int u = 0; u < t; u++)
            if (steps[u].until > t) live += graph->nodes[steps[u].node].alternatives[steps[u].alternative].workspace_bytes;
        if (between[t] != live)
            fail_msg("seed %llu: %lld bytes before step %d, not %lld", seed, (long long)between[t], t, (long long)live);
    }
    mp_free(between);
    simulation_free(&sim);
    mp_timeline_free(tl);
}
