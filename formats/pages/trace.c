/* trace.c - writes steps as slices and live bytes as counters. */
#include "formats/pages/trace.h"

#include <string.h>
#include <strings.h>

#include "estimator/base/memory.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "formats/curves/chart.h"
#include "formats/json/json.h"
#include "memplan/makespan.h"

enum { PROCESS = 1, STREAM = 1 }; /* channel c is thread STREAM + c */
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

/* Returns the channel on which a step runs; an update that is not issued runs on compute. */
static int channel_of(const mp_timeline_columns *c, size_t t)
{
    const int channel = c->graph->nodes[c->steps[t].node].alternatives[c->steps[t].alternative].channel;
    return channel == MP_CHANNEL_SECOND_STREAM && !c->steps[t].until ? MP_CHANNEL_COMPUTE : channel;
}

static json_t *slice(const mp_timeline_columns *c, size_t t, double start, double duration)
{
    const mp_node *node = &c->graph->nodes[c->steps[t].node];
    const char *name = mp_short_name(mp_node_title(c->graph, c->steps[t].node));
    json_t *e = event("X", name, STREAM + channel_of(c, t)),
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

/* ends[t] is when step t ends, in ticks. */
static json_t *event_list(const mp_timeline_columns *c, const int64_t *ends, const char *title)
{
    json_t *list = json_array();
    bool used[MP_N_LAYERS] = {false}, beside[MP_MAX_CHANNELS] = {false};
    for (size_t t = 0; t < c->n_steps; t++) {
        for (int layer = 0; layer < MP_N_LAYERS; layer++) used[layer] |= c->columns[t].bytes[layer] > 0;
        beside[channel_of(c, t)] = true;
    }
    mp_json_append(&list, naming("process_name", STREAM, title));
    mp_json_append(&list, naming("thread_name", STREAM, "steps"));
    for (int k = MP_CHANNEL_SECOND_STREAM; k < MP_MAX_CHANNELS; k++)
        if (beside[k]) mp_json_append(&list, naming("thread_name", STREAM + k, c->graph->channels[k]));
    for (size_t t = 0; t < c->n_steps; t++) {
        const int64_t own = c->graph->nodes[c->steps[t].node].alternatives[c->steps[t].alternative].ticks;
        const double unit = c->graph->tick_seconds * MICROSECONDS, start = (double)(ends[t] - own) * unit;
        mp_json_append(&list, slice(c, t, start, (double)own * unit));
        mp_json_append(&list, counter(&c->columns[t], used, start));
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
    int64_t ticks;
    MP_OWNED int64_t *ends = NULL;
    const size_t n = plan ? plan->n_steps : mp_graph_n_required(graph);
    MP_CHECK(mp_timeline_columns_new(graph, plan ? plan->steps : NULL, n, n ? n : 1, &columns, err));
    MP_ENSURE(ends = mp_alloc(n, sizeof *ends), err, MP_NOMEM, "no memory for a trace of %zu steps", n);
    MP_CHECK(mp_makespan(graph, columns->steps, n, ends, &ticks, err));
    other = json_pack("{s:I, s:i}", "peak_bytes", (json_int_t)columns->timeline->peak_bytes, "peak_step",
                      columns->timeline->peak_step + 1);
    if (plan && plan->budget_bytes < MP_NO_LIMIT) mp_json_set(&other, "budget_bytes", json_integer(plan->budget_bytes));
    trace = json_pack("{s:s, s:o, s:o}", "displayTimeUnit", "ms", "otherData", other, "traceEvents",
                      event_list(columns, ends, title));
    MP_ENSURE(trace && (text = mp_json_print(trace, 0)), err, MP_NOMEM, "no memory for a trace of %zu steps", n);
    return mp_file_write(path, text, strlen(text), err);
}
