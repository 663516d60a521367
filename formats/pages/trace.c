/* trace.c - writes a trace of a plan: steps as slices, and live bytes as counters. */
#include "formats/pages/trace.h"

#include <string.h>
#include <strings.h>

#include "estimator/base/memory.h"
#include "estimator/graph/order_rules.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "formats/curves/chart.h"
#include "formats/json/json.h"

enum { PROCESS = 1, STREAM = 1 }; /* thread numbers in the trace: channel c is thread STREAM + c */
#define MICROSECONDS 1e6

bool mp_is_trace_path(const char *path)
{
    const char *point = strrchr(path, '.');
    return point && !strcasecmp(point, ".json");
}

static json_t *event(const char *phase, const char *name, int thread)
{
    return json_pack("{s:s, s:o, s:i, s:i}", "ph", phase, "name", mp_json_text(name), "pid", PROCESS, "tid", thread);
}

/* Returns the trace event that names a process or a thread. */
static json_t *naming(const char *what, int thread, const char *name)
{
    json_t *e = event("M", what, thread);
    mp_json_set(&e, "args", json_pack("{s:o}", "name", mp_json_text(name)));
    return e;
}

static json_t *slice(const mp_timeline_columns *c, size_t t, double start, double duration)
{
    const mp_node *node = &c->graph->nodes[c->steps[t].node];
    const char *name = mp_short_name(mp_node_title(c->graph, c->steps[t].node));
    json_t *e = event("X", name, STREAM + mp_step_channel(c->graph, c->steps[t])),
           *args = json_pack("{s:I, s:o}", "step", (json_int_t)t + 1, "operator", mp_json_text(node->op));
    if (node->source) mp_json_set(&args, "source", mp_json_text(node->source));
    mp_json_set(&e, "cat", json_string(mp_activity_name(c->activity[t])));
    mp_json_set(&e, "ts", json_real(start));
    mp_json_set(&e, "dur", json_real(duration));
    mp_json_set(&e, "args", args);
    return e;
}

/* Returns the counter event for the live bytes of a tier at a step. `used` marks the layers that occur in the tier. */
static json_t *counter(const mp_timeline_columns *c, int tier, size_t t, const bool *used, double start)
{
    const mp_timeline_column *column = &c->tiers[tier].columns[t];
    const char *name = tier == MP_TIER_DEVICE ? "live bytes" : mp_text("live bytes, %s", c->graph->tiers[tier]);
    json_t *e = event("C", name, STREAM), *args = json_object();
    for (int layer = 0; layer < MP_N_LAYERS; layer++)
        if (used[layer]) mp_json_set(&args, mp_layer_name((mp_layer)layer), json_integer(column->bytes[layer]));
    mp_json_set(&e, "ts", json_real(start));
    mp_json_set(&e, "args", args);
    return e;
}

static json_t *event_list(const mp_timeline_columns *c, const char *title)
{
    json_t *list = json_array();
    const int n_tiers = (int)c->graph->n_tiers;
    bool used[MP_MAX_TIERS][MP_N_LAYERS] = {{false}}, beside[MP_MAX_CHANNELS] = {false};
    for (size_t t = 0; t < c->n_steps; t++) {
        for (int m = 0; m < n_tiers; m++)
            for (int layer = 0; layer < MP_N_LAYERS; layer++) used[m][layer] |= c->tiers[m].columns[t].bytes[layer] > 0;
        beside[mp_step_channel(c->graph, c->steps[t])] = true;
    }
    mp_json_append(&list, naming("process_name", STREAM, title));
    mp_json_append(&list, naming("thread_name", STREAM, "steps"));
    for (int k = MP_CHANNEL_SECOND_STREAM; k < MP_MAX_CHANNELS; k++)
        if (beside[k]) mp_json_append(&list, naming("thread_name", STREAM + k, c->graph->channels[k]));
    for (size_t t = 0; t < c->n_steps; t++) {
        const int64_t own = c->graph->nodes[c->steps[t].node].alternatives[c->steps[t].alternative].ticks;
        const double unit = c->graph->tick_seconds * MICROSECONDS, start = (double)(c->ends[t] - own) * unit;
        mp_json_append(&list, slice(c, t, start, (double)own * unit));
        for (int m = 0; m < n_tiers; m++) mp_json_append(&list, counter(c, m, t, used[m], start));
    }
    return list;
}

static json_t *tier_list(const mp_timeline_columns *c, const mp_plan *plan)
{
    json_t *list = json_array();
    for (size_t m = MP_TIER_DEVICE + 1; m < c->graph->n_tiers; m++) {
        const mp_tier_use *use = c->tiers[m].use;
        json_t *tier = json_pack("{s:o, s:I, s:i}", "name", mp_json_text(c->graph->tiers[m]), "peak_bytes",
                                 (json_int_t)use->peak_bytes, "peak_step", use->peak_step + 1);
        if (plan && plan->tiers[m].budget_bytes < MP_NO_LIMIT)
            mp_json_set(&tier, "budget_bytes", json_integer(plan->tiers[m].budget_bytes));
        mp_json_append(&list, tier);
    }
    return list;
}

mp_status mp_trace_write(const mp_graph *graph, const mp_plan *plan, const char *title, const char *path, mp_error *err)
{
    MP_ABOUT(err, path);
    MP_OWNED_BY(mp_timeline_columns_free) mp_timeline_columns *columns = NULL;
    MP_OWNED_BY(json_decref) json_t *trace = NULL;
    json_t *other = NULL;
    MP_OWNED char *text = NULL;
    const size_t n = plan ? plan->n_steps : mp_graph_n_required(graph);
    MP_CHECK(mp_timeline_columns_new(graph, plan ? plan->steps : NULL, n, n ? n : 1, &columns, err));
    other = json_pack("{s:I, s:i}", "peak_bytes", (json_int_t)columns->timeline->peak_bytes, "peak_step",
                      columns->timeline->peak_step + 1);
    if (plan && plan->budget_bytes < MP_NO_LIMIT) mp_json_set(&other, "budget_bytes", json_integer(plan->budget_bytes));
    if (graph->n_tiers > MP_TIER_DEVICE + 1) mp_json_set(&other, "tiers", tier_list(columns, plan));
    trace =
        json_pack("{s:s, s:o, s:o}", "displayTimeUnit", "ms", "otherData", other, "traceEvents", event_list(columns, title));
    MP_ENSURE(trace && (text = mp_json_print(trace, 0)), err, MP_NOMEM, "no memory for a trace of %zu steps", n);
    return mp_file_write(path, text, strlen(text), err);
}
