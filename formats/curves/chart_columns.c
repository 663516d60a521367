/* chart_columns.c - live bytes by layer over the steps of a plan, with keep-all's live bytes for comparison.
 *
 * A plan has more steps than keep-all and may run them in another order, so the plan and keep-all have no common axis of
 * steps. Each curve is stretched to the whole width. The picture thus compares equal fractions of the two step lists. */
#include "formats/curves/chart.h"

#include <math.h>
#include <string.h>

#include "estimator/graph/liveness.h"
#include "estimator/graph/order_rules.h"
#include "estimator/graph/without_state_copies.h"
#include "planner/order/updates.h"

static const struct {
    const char *name, *color;
} layers[MP_N_LAYERS] = {
#define ROW(name, text, color) {text, color},
    MP_LAYER_LIST(ROW)
#undef ROW
};

const char *mp_layer_name(mp_layer layer)
{
    return layers[layer].name;
}

const char *mp_layer_color(mp_layer layer)
{
    return layers[layer].color;
}

const char *mp_activity_name(mp_activity activity)
{
    static const char *const names[MP_N_ACTIVITIES] = {"forward", "recompute", "copy", "backward", "update"};
    return names[activity];
}

const char *mp_activity_color(mp_activity activity)
{
    static const mp_layer of[MP_N_ACTIVITIES] = {MP_LAYER_FORWARD_ONLY, MP_LAYER_RECOMPUTED, MP_LAYER_COPIED,
                                                 MP_LAYER_GRADIENTS, MP_LAYER_OPTIMIZER};
    return mp_layer_color(of[activity]);
}

mp_layer mp_layer_of_kind(mp_kind kind)
{
    static const mp_layer of[MP_N_KINDS] = {[MP_KIND_PARAMETER] = MP_LAYER_PARAMETERS,
                                            [MP_KIND_OPTIMIZER_STATE] = MP_LAYER_OPTIMIZER,
                                            [MP_KIND_BUFFER] = MP_LAYER_PARAMETERS,
                                            [MP_KIND_CONSTANT] = MP_LAYER_PARAMETERS,
                                            [MP_KIND_INPUT] = MP_LAYER_PARAMETERS,
                                            [MP_KIND_ACTIVATION] = MP_LAYER_KEPT,
                                            [MP_KIND_SAVED] = MP_LAYER_KEPT,
                                            [MP_KIND_GRADIENT] = MP_LAYER_GRADIENTS,
                                            [MP_KIND_ACTIVATION_GRADIENT] = MP_LAYER_GRADIENTS};
    return of[kind];
}

static void name_activities(mp_timeline_columns *c, bool *ran)
{
    for (size_t t = 0; t < c->n_steps; t++) {
        const mp_node *node = &c->graph->nodes[c->steps[t].node];
        const bool copies = mp_copy_way_of(c->graph, c->steps[t].node, c->steps[t].alternative) != MP_COPY_NONE;
        mp_activity activity = copies                             ? MP_ACTIVITY_COPY
                               : node->phase == MP_PHASE_UPDATE   ? MP_ACTIVITY_UPDATE
                               : node->phase == MP_PHASE_BACKWARD ? MP_ACTIVITY_BACKWARD
                               : ran[c->steps[t].node]            ? MP_ACTIVITY_RECOMPUTE
                                                                  : MP_ACTIVITY_FORWARD;
        ran[c->steps[t].node] = true;
        c->activity[t] = activity;
        c->n_activity[activity]++;
    }
}

/* Chooses the layer of every span (live range of a storage). The result of a first run is "kept" if backward or a recomputation
 * reads it. The result of a later run is "recomputed", and the result of a copy is "copied". `span` is scratch memory with one
 * entry per storage: the current span of the storage. */
static void choose_layers(mp_timeline_columns *c, int *span)
{
    const mp_timeline *tl = c->timeline;
    size_t next = 0;
    for (size_t s = 0; s < c->graph->n_storages; s++) span[s] = -1;
    for (size_t t = 0; t < c->n_steps; t++) {
        const mp_node *node = &c->graph->nodes[c->steps[t].node];
        const mp_alternative *alternative = &node->alternatives[c->steps[t].alternative];
        if (c->activity[t] != MP_ACTIVITY_FORWARD && c->activity[t] != MP_ACTIVITY_COPY) {
            for (size_t k = 0; k < alternative->n_reads; k++) {
                int at = span[alternative->reads[k]];
                if (at >= 0 && c->layer[at] == MP_LAYER_FORWARD_ONLY) c->layer[at] = MP_LAYER_KEPT;
            }
        }
        for (; next < tl->n_spans && tl->spans[next].begin == (int)t; next++) {
            const int storage = mp_state_home(
                c->graph, tl->spans[next].storage); /* optimizer state belongs to the layer of state, in whichever tier it is */
            const mp_layer own = mp_layer_of_kind(c->graph->storages[storage].kind);
            span[tl->spans[next].storage] = (int)next;
            c->layer[next] = own == MP_LAYER_OPTIMIZER                 ? own
                             : c->activity[t] == MP_ACTIVITY_COPY      ? MP_LAYER_COPIED
                             : own == MP_LAYER_GRADIENTS               ? own
                             : c->activity[t] == MP_ACTIVITY_RECOMPUTE ? MP_LAYER_RECOMPUTED
                                                                       : MP_LAYER_FORWARD_ONLY;
        }
    }
}

/* Computes the live bytes of a tier per step and layer. `live` has (n_steps + 1) * MP_N_LAYERS entries. */
static void add_up(const mp_timeline_columns *c, int tier, int64_t *live)
{
    const mp_timeline *tl = c->timeline;
    memset(live, 0, (c->n_steps + 1) * MP_N_LAYERS * sizeof *live);
    for (size_t k = 0; k < tl->n_spans; k++) {
        const mp_span *span = &tl->spans[k];
        if (c->graph->storages[span->storage].tier != tier) continue;
        int64_t bytes = c->graph->storages[span->storage].bytes;
        live[(size_t)mp_span_counts_from(span) * MP_N_LAYERS + c->layer[k]] += bytes;
        live[(size_t)span->end * MP_N_LAYERS + c->layer[k]] -= bytes;
    }
    for (size_t t = 1; t < c->n_steps; t++)
        for (size_t k = 0; k < MP_N_LAYERS; k++) live[t * MP_N_LAYERS + k] += live[(t - 1) * MP_N_LAYERS + k];
    for (size_t t = 0; t < c->n_steps; t++) {
        for (size_t k = 0; k < MP_N_LAYERS; k++) live[t * MP_N_LAYERS + k] += c->tiers[tier].always[k];
        if (tier != MP_TIER_DEVICE) continue;
        live[t * MP_N_LAYERS + MP_LAYER_WORKSPACE] +=
            c->graph->nodes[c->steps[t].node].alternatives[c->steps[t].alternative].workspace_bytes;
        if (tl->concurrent_bytes) live[t * MP_N_LAYERS + MP_LAYER_WORKSPACE] += tl->concurrent_bytes[t];
    }
}

int64_t mp_keep_all_between(const mp_timeline_columns *c, int tier, double from, double to)
{
    const mp_tier_use *use = c->tiers[tier].keep_all;
    const size_t n = c->keep_all->n_steps;
    const size_t first = (size_t)(from * (double)n + 1e-6), end = (size_t)ceil(to * (double)n - 1e-6);
    int64_t most = 0;
    for (size_t t = first; t < n && (t < end || t == first); t++)
        if (use->live_bytes[t] > most) most = use->live_bytes[t];
    return use->static_bytes + most;
}

static void fill_column(const mp_timeline_columns *c, int tier, mp_timeline_column *column, const int64_t *live)
{
    const mp_tier_use *use = c->tiers[tier].use;
    size_t counts[MP_N_ACTIVITIES] = {0};
    column->total = -1;
    for (int t = column->first; t <= column->last; t++) {
        int64_t total = use->static_bytes + use->live_bytes[t];
        if (total > column->total) column->shown = t;
        if (total > column->total) column->total = total;
        counts[c->activity[t]]++;
    }
    column->keep_all =
        mp_keep_all_between(c, tier, column->first / (double)c->n_steps, (column->last + 1) / (double)c->n_steps);
    for (size_t k = 0; k < MP_N_LAYERS; k++) column->bytes[k] = live[(size_t)column->shown * MP_N_LAYERS + k];
    for (int k = 1; k < MP_N_ACTIVITIES; k++)
        if (counts[k] > counts[column->activity]) column->activity = (mp_activity)k;
}

/* Summarises the live bytes of a tier in columns. `live` is scratch memory of the size that add_up requires. */
static void fill_tier(mp_timeline_columns *c, int tier, size_t per_column, int64_t *live)
{
    mp_tier_columns *of = &c->tiers[tier];
    of->use = &c->timeline->tiers[tier];
    of->keep_all = &c->keep_all->tiers[tier];
    for (size_t s = 0; s < c->graph->n_storages; s++)
        if (c->graph->storages[s].tier == tier && mp_storage_is_static(&c->graph->storages[s]))
            of->always[mp_layer_of_kind(c->graph->storages[s].kind)] += c->graph->storages[s].bytes;
    add_up(c, tier, live);
    for (size_t k = 0; k < c->n; k++) {
        const size_t first = k * per_column, end = first + per_column < c->n_steps ? first + per_column : c->n_steps;
        of->columns[k].first = (int)first;
        of->columns[k].last = (int)end - 1;
        fill_column(c, tier, &of->columns[k], live);
    }
}

mp_status mp_timeline_columns_new(const mp_graph *graph, const mp_step *steps, size_t n, size_t most, mp_timeline_columns **out,
                                  mp_error *err)
{
    if (!steps) n = mp_graph_n_required(graph);
    const size_t per_column = (n + most - 1) / most;
    MP_OWNED_BY(mp_pool_free) mp_pool *work = mp_pool_new();
    MP_OWNED_BY(mp_timeline_columns_free) mp_timeline_columns *c = mp_alloc(1, sizeof *c);
    int64_t ticks;
    MP_ENSURE(c, err, MP_NOMEM, "no memory for a picture of %zu steps", n);
    MP_ENSURE(n > 0, err, MP_INVALID, "there are no steps to draw");
    *c = (mp_timeline_columns){.graph = graph, .steps = steps, .n_steps = n, .pool = mp_pool_new()};
    mp_step *keep_all = mp_pool_alloc(c->pool, graph->n_nodes, sizeof *keep_all);
    MP_ENSURE(keep_all, err, MP_NOMEM, "no memory for a picture of %zu steps", n);
    const size_t n_all = mp_keep_all(graph, keep_all);
    if (!steps && mp_update_order_of(graph).keeps_inputs) c->steps = steps = keep_all;
    if (!steps) {
        MP_CHECK(mp_updates_place_early(graph, &c->early, &n, err));
        c->steps = steps = c->early;
    }
    MP_CHECK(mp_timeline_build(graph, keep_all, n_all, &c->keep_all, err));
    MP_CHECK(mp_keep_all_ticks(graph, &c->keep_all_ticks, err));
    MP_CHECK(mp_timeline_build(graph, steps, n, &c->timeline, err));
    bool *ran = mp_pool_alloc(work, graph->n_nodes, sizeof *ran);
    int *span = mp_pool_alloc(work, graph->n_storages, sizeof *span);
    int64_t *live = mp_pool_alloc(work, (n + 1) * MP_N_LAYERS, sizeof *live);
    c->layer = mp_pool_alloc(c->pool, c->timeline->n_spans, sizeof *c->layer);
    c->activity = mp_pool_alloc(c->pool, n, sizeof *c->activity);
    c->ends = mp_pool_alloc(c->pool, n, sizeof *c->ends);
    c->tiers = mp_pool_alloc(c->pool, graph->n_tiers, sizeof *c->tiers);
    c->n = (n + per_column - 1) / per_column;
    for (size_t m = 0; c->tiers && m < graph->n_tiers; m++)
        c->tiers[m].columns = mp_pool_alloc(c->pool, c->n, sizeof *c->tiers->columns);
    MP_ENSURE(!mp_pool_failed(work) && !mp_pool_failed(c->pool), err, MP_NOMEM, "no memory for a picture of %zu steps", n);
    MP_CHECK(mp_makespan(graph, steps, n, c->ends, &ticks, err));
    MP_CHECK(mp_makespan_recomputation(graph, steps, n, &c->again, err));
    name_activities(c, ran);
    choose_layers(c, span);
    for (size_t m = 0; m < graph->n_tiers; m++) fill_tier(c, (int)m, per_column, live);
    c->columns = c->tiers[MP_TIER_DEVICE].columns;
    c->peak_column = c->timeline->peak_step / (int)per_column;
    *out = c;
    c = NULL;
    return MP_OK;
}

void mp_timeline_columns_free(mp_timeline_columns *columns)
{
    if (!columns) return;
    mp_timeline_free(columns->timeline);
    mp_timeline_free(columns->keep_all);
    mp_pool_free(columns->pool);
    mp_free(columns->early);
    mp_free(columns);
}
