/* run_trace.c - writes a trace of measured steps: a slice per step, a process per rank, a thread per channel. */
#include "formats/pages/run_trace.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "estimator/graph/order_rules.h"
#include "formats/base/file.h"
#include "formats/base/text.h"
#include "formats/curves/chart.h"
#include "formats/json/json.h"

#define MICROSECONDS 1e6
enum { WAITS = MP_MAX_CHANNELS }; /* number of the lane that shows waits; it follows the lanes of the channels */

static json_t *event(const char *phase, const char *name, int rank, int lane)
{
    return json_pack("{s:s, s:o, s:i, s:i}", "ph", phase, "name", mp_json_text(name), "pid", rank, "tid", lane);
}

static json_t *naming(const char *what, int rank, int lane, const char *name)
{
    json_t *e = event("M", what, rank, lane);
    mp_json_set(&e, "args", json_pack("{s:o}", "name", mp_json_text(name)));
    return e;
}

static json_t *slice(const char *name, const char *kind, int rank, int lane, double from, double to)
{
    json_t *e = event("X", name, rank, lane);
    mp_json_set(&e, "cat", json_string(kind));
    mp_json_set(&e, "ts", json_real(from * MICROSECONDS));
    mp_json_set(&e, "dur", json_real((to - from) * MICROSECONDS));
    return e;
}

static double first_of(const mp_step_time *times, size_t n)
{
    double first = 0;
    for (size_t t = 0; t < n; t++)
        if (times[t].begin > 0 && (!first || times[t].begin < first)) first = times[t].begin;
    return first;
}

static json_t *events_of(const mp_graph *g, const mp_plan *plan, const mp_step_time *times, int rank, const char *title)
{
    json_t *list = json_array();
    bool used[MP_MAX_CHANNELS] = {false}, waits = false;
    const double first = first_of(times, plan->n_steps);
    mp_json_append(&list, naming("process_name", rank, 0, title));
    for (size_t t = 0; t < plan->n_steps; t++) {
        const mp_step_time *time = &times[t];
        const mp_node *node = &g->nodes[plan->steps[t].node];
        const char *name = mp_short_name(mp_node_title(g, plan->steps[t].node));
        const int channel = mp_step_channel(g, plan->steps[t]);
        if (time->end <= time->begin || time->begin <= 0) continue;
        used[channel] = true;
        mp_json_append(&list, slice(name, mp_phase_name(node->phase), rank, channel, time->begin - first, time->end - first));
        if (time->wait_end <= time->wait_begin) continue;
        waits = true;
        mp_json_append(&list, slice(name, "wait", rank, WAITS, time->wait_begin - first, time->wait_end - first));
    }
    for (int k = 0; k < MP_MAX_CHANNELS; k++)
        if (used[k]) mp_json_append(&list, naming("thread_name", rank, k, k ? g->channels[k] : "compute"));
    if (waits) mp_json_append(&list, naming("thread_name", rank, WAITS, "waiting"));
    return list;
}

mp_status mp_run_trace_events(const mp_graph *graph, const mp_plan *plan, const mp_step_time *times, int rank,
                              const char *title, char **out, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *list = events_of(graph, plan, times, rank, title);
    MP_ENSURE(list && (*out = mp_json_print(list, 0)), err, MP_NOMEM, "no memory for a trace of %zu steps", plan->n_steps);
    return MP_OK;
}

mp_status mp_run_trace_write(const char *path, const char *const *events, size_t n, mp_error *err)
{
    MP_ABOUT(err, path);
    static const char head[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", tail[] = "]}\n";
    size_t length = sizeof head + sizeof tail, at = 0;
    for (size_t k = 0; k < n; k++) length += strlen(events[k]) + 1;
    MP_OWNED char *text = mp_alloc(length, 1);
    MP_ENSURE(text, err, MP_NOMEM, "no memory for a trace of %zu bytes", length);
    memcpy(text, head, at = sizeof head - 1);
    for (size_t k = 0; k < n; k++) { /* each of the n texts is a JSON list "[...]"; a newline may follow it */
        const char *from = strchr(events[k], '['), *to = strrchr(events[k], ']');
        if (!from || to <= from + 1) continue;
        if (at > sizeof head - 1) text[at++] = ',';
        memcpy(text + at, from + 1, (size_t)(to - from - 1));
        at += (size_t)(to - from - 1);
    }
    memcpy(text + at, tail, sizeof tail - 1);
    return mp_file_write(path, text, at + sizeof tail - 1, err);
}
