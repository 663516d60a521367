/* trace.c - writes steps as slices and live bytes as counters. */
#include "formats/pages/trace.h"

#include <string.h>
#include <strings.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "formats/curves/chart.h"
#include "formats/json/json.h"

enum { PROCESS = 1, STREAM = 1, SECOND_STREAM = 2 };
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

/* Returns the event that names a process or a thread. */
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
    json_t *e = event("X", name, c->steps[t].until ? SECOND_STREAM : STREAM),
           *args = json_pack("{s:I, s:o}", "step", (json_int_t)t + 1, "operator", mp_json_text(node->op));
    if (node->source) mp_json_set(&args, "source", mp_json_text(node->source));
    mp_json_set(&e, "cat", json_string(mp_activity_name(c->activity[t])));
    mp_json_set(&e, "ts", json_real(start));
    mp_json_set(&e, "dur", json_real(duration));
    mp_json_set(&e, "args", args);
    return e;
}

static json_t *counter(const mp_timeline_column *column, const bool *used, double start)
{
    json_t *e = event("C", "live bytes", STREAM), *args = json_object();
    for (int layer = 0; layer < MP_N_LAYERS; layer++)
        if (used[layer]) mp_json_set(&args, mp_layer_name((mp_layer)layer), json_integer(column->bytes[layer]));
    mp_json_set(&e, "ts", json_real(start));
    mp_json_set(&e, "args", args);
    return e;
}

static json_t *event_list(const mp_timeline_columns *c, const char *title)
{
    json_t *list = json_array();
    bool used[MP_N_LAYERS] = {false}, second = false;
    int64_t ticks = 0;
    for (size_t t = 0; t < c->n_steps; t++) {
        for (int layer = 0; layer < MP_N_LAYERS; layer++) used[layer] |= c->columns[t].bytes[layer] > 0;
        second |= c->steps[t].until != 0;
    }
    mp_json_append(&list, naming("process_name", STREAM, title));
    mp_json_append(&list, naming("thread_name", STREAM, "steps"));
    if (second) mp_json_append(&list, naming("thread_name", SECOND_STREAM, "second stream"));
    for (size_t t = 0; t < c->n_steps; t++) {
        const int64_t own = c->graph->nodes[c->steps[t].node].alternatives[c->steps[t].alternative].ticks;
        const double unit = c->graph->tick_seconds * MICROSECONDS, start = (double)ticks * unit;
        mp_json_append(&list, slice(c, t, start, (double)own * unit));
        mp_json_append(&list, counter(&c->columns[t], used, start));
        ticks += own;
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
    const size_t n = plan ? plan->n_steps : graph->n_nodes;
    MP_CHECK(mp_timeline_columns_new(graph, plan ? plan->steps : NULL, n, n ? n : 1, &columns, err));
    other = json_pack("{s:I, s:i}", "peak_bytes", (json_int_t)columns->timeline->peak_bytes, "peak_step",
                      columns->timeline->peak_step + 1);
    if (plan && plan->budget_bytes < MP_NO_LIMIT) mp_json_set(&other, "budget_bytes", json_integer(plan->budget_bytes));
    trace =
        json_pack("{s:s, s:o, s:o}", "displayTimeUnit", "ms", "otherData", other, "traceEvents", event_list(columns, title));
    MP_ENSURE(trace && (text = mp_json_print(trace, 0)), err, MP_NOMEM, "no memory for a trace of %zu steps", n);
    return mp_file_write(path, text, strlen(text), err);
}
