/* chart_columns.c - live bytes by layer over the steps of a plan, and keep-all's live bytes to compare with.
 *
 * A plan has more steps than keep-all, and may run them in another order, so the two have no common clock. Both curves
 * span the whole width, so the picture compares equal shares of the two lists of steps.
 */
#include "formats/curves/chart.h"

#include <math.h>

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
    static const char *const names[MP_N_ACTIVITIES] = {"forward", "recompute", "backward", "update"};
    return names[activity];
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
        mp_activity activity = node->phase == MP_PHASE_UPDATE     ? MP_ACTIVITY_UPDATE
                               : node->phase == MP_PHASE_BACKWARD ? MP_ACTIVITY_BACKWARD
                               : ran[c->steps[t].node]            ? MP_ACTIVITY_RECOMPUTE
                                                                  : MP_ACTIVITY_FORWARD;
        ran[c->steps[t].node] = true;
        c->activity[t] = activity;
        c->n_activity[activity]++;
    }
}

/* Chooses the layer of every span. The first run's product is kept if backward or a recomputation reads it; a later
 * run's product is recomputed. `span`, an entry per storage, is scratch memory: the span of each live storage. */
static void choose_layers(mp_timeline_columns *c, int *span)
{
    const mp_timeline *tl = c->timeline;
    size_t next = 0;
    for (size_t s = 0; s < c->graph->n_storages; s++) span[s] = -1;
    for (size_t t = 0; t < c->n_steps; t++) {
        const mp_node *node = &c->graph->nodes[c->steps[t].node];
        const mp_alternative *alternative = &node->alternatives[c->steps[t].alternative];
        if (c->activity[t] != MP_ACTIVITY_FORWARD) {
            for (size_t k = 0; k < alternative->n_reads; k++) {
                int at = span[alternative->reads[k]];
                if (at >= 0 && c->layer[at] == MP_LAYER_FORWARD_ONLY) c->layer[at] = MP_LAYER_KEPT;
            }
        }
        for (; next < tl->n_spans && tl->spans[next].begin == (int)t; next++) {
            mp_kind kind = c->graph->storages[tl->spans[next].storage].kind;
            bool gradient = mp_layer_of_kind(kind) == MP_LAYER_GRADIENTS;
            span[tl->spans[next].storage] = (int)next;
            c->layer[next] = gradient                                  ? MP_LAYER_GRADIENTS
                             : c->activity[t] == MP_ACTIVITY_RECOMPUTE ? MP_LAYER_RECOMPUTED
                                                                       : MP_LAYER_FORWARD_ONLY;
        }
    }
}

/* Adds up live bytes per step and layer. `live` has (n_steps + 1) * MP_N_LAYERS entries, all 0. */
static void add_up(mp_timeline_columns *c, int64_t *live)
{
    const mp_timeline *tl = c->timeline;
    for (size_t k = 0; k < tl->n_spans; k++) {
        const mp_span *span = &tl->spans[k];
        int64_t bytes = c->graph->storages[span->storage].bytes;
        live[(size_t)(span->begin + (span->takes_over >= 0)) * MP_N_LAYERS + c->layer[k]] += bytes;
        live[(size_t)span->end * MP_N_LAYERS + c->layer[k]] -= bytes;
    }
    for (size_t t = 1; t < c->n_steps; t++)
        for (size_t k = 0; k < MP_N_LAYERS; k++) live[t * MP_N_LAYERS + k] += live[(t - 1) * MP_N_LAYERS + k];
    for (size_t t = 0; t < c->n_steps; t++) {
        live[t * MP_N_LAYERS + MP_LAYER_WORKSPACE] +=
            c->graph->nodes[c->steps[t].node].alternatives[c->steps[t].alternative].workspace_bytes;
        if (tl->concurrent_bytes) live[t * MP_N_LAYERS + MP_LAYER_WORKSPACE] += tl->concurrent_bytes[t];
        for (size_t k = 0; k < MP_N_LAYERS; k++) live[t * MP_N_LAYERS + k] += c->always[k];
    }
}

int64_t mp_keep_all_between(const mp_timeline_columns *c, double from, double to)
{
    const size_t n = c->keep_all->n_steps;
    const size_t first = (size_t)(from * (double)n + 1e-6), end = (size_t)ceil(to * (double)n - 1e-6);
    int64_t most = 0;
    for (size_t t = first; t < n && (t < end || t == first); t++)
        if (c->keep_all->live_bytes[t] > most) most = c->keep_all->live_bytes[t];
    return c->keep_all->static_bytes + most;
}

static void fill_column(mp_timeline_columns *c, mp_timeline_column *column, const int64_t *live)
{
    size_t counts[MP_N_ACTIVITIES] = {0};
    column->total = -1;
    for (int t = column->first; t <= column->last; t++) {
        int64_t total = c->timeline->static_bytes + c->timeline->live_bytes[t];
        if (total > column->total) column->shown = t;
        if (total > column->total) column->total = total;
        counts[c->activity[t]]++;
    }
    column->keep_all = mp_keep_all_between(c, column->first / (double)c->n_steps, (column->last + 1) / (double)c->n_steps);
    for (size_t k = 0; k < MP_N_LAYERS; k++) column->bytes[k] = live[(size_t)column->shown * MP_N_LAYERS + k];
    for (int k = 1; k < MP_N_ACTIVITIES; k++)
        if (counts[k] > counts[column->activity]) column->activity = (mp_activity)k;
}

mp_status mp_timeline_columns_new(const mp_graph *graph, const mp_step *steps, size_t n, size_t most, mp_timeline_columns **out,
                                  mp_error *err)
{
    if (!steps) n = graph->n_nodes;
    const size_t per_column = (n + most - 1) / most;
    MP_OWNED_BY(mp_pool_free) mp_pool *work = mp_pool_new();
    MP_OWNED_BY(mp_timeline_columns_free) mp_timeline_columns *c = mp_alloc(1, sizeof *c);
    MP_ENSURE(c, err, MP_NOMEM, "no memory for a picture of %zu steps", n);
    MP_ENSURE(n > 0, err, MP_INVALID, "there are no steps to draw");
    *c = (mp_timeline_columns){.graph = graph, .steps = steps, .n_steps = n, .pool = mp_pool_new()};
    mp_step *keep_all = mp_pool_alloc(c->pool, graph->n_nodes, sizeof *keep_all);
    MP_ENSURE(keep_all, err, MP_NOMEM, "no memory for a picture of %zu steps", n);
    const size_t n_all = mp_keep_all(graph, keep_all);
    if (!steps) c->steps = steps = keep_all;
    MP_CHECK(mp_timeline_build(graph, keep_all, n_all, &c->keep_all, err));
    MP_CHECK(mp_timeline_build(graph, steps, n, &c->timeline, err));
    bool *ran = mp_pool_alloc(work, graph->n_nodes, sizeof *ran);
    int *span = mp_pool_alloc(work, graph->n_storages, sizeof *span);
    int64_t *live = mp_pool_alloc(work, (n + 1) * MP_N_LAYERS, sizeof *live);
    c->layer = mp_pool_alloc(c->pool, c->timeline->n_spans, sizeof *c->layer);
    c->activity = mp_pool_alloc(c->pool, n, sizeof *c->activity);
    c->columns = mp_pool_alloc(c->pool, (n + per_column - 1) / per_column, sizeof *c->columns);
    MP_ENSURE(!mp_pool_failed(work) && !mp_pool_failed(c->pool), err, MP_NOMEM, "no memory for a picture of %zu steps", n);
    for (size_t s = 0; s < graph->n_storages; s++)
        if (mp_storage_is_static(&graph->storages[s]))
            c->always[mp_layer_of_kind(graph->storages[s].kind)] += graph->storages[s].bytes;
    name_activities(c, ran);
    choose_layers(c, span);
    add_up(c, live);
    for (size_t first = 0; first < n; first += per_column) {
        mp_timeline_column *column = &c->columns[c->n];
        column->first = (int)first;
        column->last = (int)(first + per_column < n ? first + per_column : n) - 1;
        fill_column(c, column, live);
        if (column->first <= c->timeline->peak_step && c->timeline->peak_step <= column->last) c->peak_column = (int)c->n;
        c->n++;
    }
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
    mp_free(columns);
}
