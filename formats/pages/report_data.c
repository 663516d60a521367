/* report_data.c - columns of the timeline, the largest tensors, and the trade-off curve. */
#include "formats/pages/report_data.h"

#include <stdlib.h>

#include "estimator/base/memory.h"
#include "estimator/base/visible_text.h"
#include "formats/base/short_name.h"
#include "formats/curves/curve_spread.h"
#include "formats/curves/timeline_panels.h"
#include "formats/json/json.h"

enum { TENSORS_MAX = 2000, KEEP_ALL_PARTS = 3000, NAME_MAX_BYTES = 512 };

/* A name or a place in a program as the page may show it. */
static json_t *shown_text(const char *text)
{
    char shown[2 * NAME_MAX_BYTES];
    return mp_json_text(mp_visible_text(text, shown, sizeof shown));
}

static const char *node_name(const mp_timeline_columns *c, int step, char *text)
{
    char title[NAME_MAX_BYTES];
    return mp_short_name(mp_node_title(c->graph, c->steps[step].node, title, sizeof title), text, NAME_MAX_BYTES);
}

static void set_source(json_t **object, const mp_timeline_columns *c, int step)
{
    const char *source = c->graph->nodes[c->steps[step].node].source;
    if (source) mp_json_set(object, "source", shown_text(source));
}

static json_t *column_list(const mp_timeline_columns *c)
{
    json_t *list = json_array();
    char name[NAME_MAX_BYTES];
    for (size_t k = 0; k < c->n; k++) {
        const mp_timeline_column *column = &c->columns[k];
        json_t *row = json_object(), *bytes = json_array();
        for (int layer = 0; layer < MP_N_LAYERS; layer++) mp_json_append(&bytes, json_integer(column->bytes[layer]));
        mp_json_set(&row, "first", json_integer(column->first));
        mp_json_set(&row, "end", json_integer(column->last + 1));
        mp_json_set(&row, "shown", json_integer(column->shown));
        mp_json_set(&row, "activity", json_string(mp_activity_name(c->activity[column->shown])));
        mp_json_set(&row, "node", shown_text(node_name(c, column->shown, name)));
        set_source(&row, c, column->shown);
        mp_json_set(&row, "bytes", bytes);
        mp_json_append(&list, row);
    }
    return list;
}

static json_t *layer_list(void)
{
    json_t *list = json_array();
    for (int k = 0; k < MP_N_LAYERS; k++) {
        json_t *row = json_object();
        mp_json_set(&row, "name", json_string(mp_layer_name((mp_layer)k)));
        mp_json_set(&row, "color", json_string(mp_layer_color((mp_layer)k)));
        mp_json_append(&list, row);
    }
    return list;
}

typedef struct ranked {
    int64_t bytes;
    size_t span;
} ranked;

static int by_bytes(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->span < y->span ? -1 : 1;
}

static json_t *tensor_list(const mp_timeline_columns *c)
{
    const mp_timeline *tl = c->timeline;
    json_t *list = json_array();
    char name[NAME_MAX_BYTES];
    ranked *order = mp_alloc(tl->n_spans, sizeof *order);
    if (!order) {
        json_decref(list);
        return NULL;
    }
    for (size_t k = 0; k < tl->n_spans; k++) order[k] = (ranked){c->graph->storages[tl->spans[k].storage].bytes, k};
    qsort(order, tl->n_spans, sizeof *order, by_bytes);
    for (size_t k = 0; k < tl->n_spans && k < TENSORS_MAX; k++) {
        const mp_span *span = &tl->spans[order[k].span];
        const mp_layer layer = c->layer[order[k].span];
        mp_label label;
        json_t *row = json_object();
        mp_short_name(mp_storage_title(c->graph, span->storage, &label), name, sizeof name);
        mp_json_set(&row, "name", shown_text(name));
        mp_json_set(&row, "bytes", json_integer(order[k].bytes));
        mp_json_set(&row, "begin", json_integer(span->begin));
        mp_json_set(&row, "end", json_integer(span->end));
        mp_json_set(&row, "kind", json_string(mp_layer_name(layer)));
        mp_json_set(&row, "color", json_string(mp_layer_color(layer)));
        mp_json_set(&row, "maker", shown_text(node_name(c, span->begin, name)));
        set_source(&row, c, span->begin);
        mp_json_append(&list, row);
    }
    mp_free(order);
    return list;
}

static json_t *keep_all_curve(const mp_timeline_columns *c)
{
    const size_t n = c->keep_all->n_steps, parts = n < KEEP_ALL_PARTS ? n : KEEP_ALL_PARTS;
    json_t *list = json_array();
    for (size_t k = 0; k < parts; k++)
        mp_json_append(&list, json_integer(mp_keep_all_between(c, (double)k / (double)parts, (double)(k + 1) / (double)parts)));
    return list;
}

/* A pair of bytes and per cent; `known` false: null in place of the second. */
static json_t *point(int64_t bytes, bool known, double percent)
{
    json_t *pair = json_array();
    mp_json_append(&pair, json_integer(bytes));
    mp_json_append(&pair, mp_json_real_if(known, percent));
    return pair;
}

static json_t *curve_list(const mp_sweep *sweep)
{
    json_t *list = json_array();
    for (size_t k = 0; sweep && k < sweep->n_curves; k++) {
        const mp_sweep_curve *curve = &sweep->curves[k];
        json_t *row = json_object(), *points = json_array();
        for (size_t i = 0; i < curve->n; i++)
            if (curve->points[i].feasible)
                mp_json_append(&points,
                               point(curve->points[i].peak_bytes, true, mp_curve_percent(sweep, curve->points[i].ticks)));
        mp_json_set(&row, "solver", json_string(curve->solver));
        mp_json_set(&row, "points", points);
        mp_json_append(&list, row);
    }
    return list;
}

static json_t *bound_list(const mp_sweep *sweep)
{
    json_t *list = json_array();
    for (size_t k = 0; sweep && k < sweep->n_bounds; k++) {
        const mp_sweep_bound *bound = &sweep->bounds[k];
        mp_json_append(&list, point(bound->budget_bytes, !bound->infeasible,
                                    bound->infeasible ? 0 : mp_curve_percent(sweep, bound->ticks)));
    }
    return list;
}

json_t *mp_report_data(const mp_report_request *request, const mp_timeline_columns *c)
{
    json_t *data = json_object();
    const bool again = c->n_activity[MP_ACTIVITY_RECOMPUTE] > 0;
    mp_json_set(&data, "steps", json_integer((json_int_t)c->n_steps));
    mp_json_set(&data, "peak", json_integer(c->timeline->peak_bytes));
    mp_json_set(&data, "peak_step", json_integer(c->timeline->peak_step));
    mp_json_set(&data, "keep_all", json_integer(c->keep_all->peak_bytes));
    mp_json_set(&data, "floor", json_integer(request->floor_bytes));
    mp_json_set(&data, "budget",
                json_integer(request->plan && request->plan->budget_bytes < MP_NO_LIMIT ? request->plan->budget_bytes : -1));
    mp_json_set(&data, "saves", json_boolean(request->plan && (again || c->timeline->peak_bytes != c->keep_all->peak_bytes)));
    mp_json_set(&data, "layers", layer_list());
    mp_json_set(&data, "columns", column_list(c));
    mp_json_set(&data, "keep_all_curve", keep_all_curve(c));
    mp_json_set(&data, "n_tensors", json_integer((json_int_t)c->timeline->n_spans));
    mp_json_set(&data, "tensors", tensor_list(c));
    mp_json_set(&data, "curves", curve_list(request->sweep));
    mp_json_set(&data, "bounds", bound_list(request->sweep));
    return data;
}
