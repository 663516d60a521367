/* workload.c - loads a workload: reads its model or graph, runs the passes, and writes its title. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/workload/option_rows.h"
#include "executor/workload/options_json.h"
#include "executor/workload/workload.h"
#include "executor/workload/workload_mesh.h"
#include "executor/workload/workload_source.h"
#include "formats/base/nearest.h"
#include "formats/base/text.h"
#include "formats/json/json.h"
#include "formats/json/plan_json.h"
#include "formats/onnx/onnx.h"
#include "memplan/check.h"
#include "memplan/graph_dot.h"
#include "memplan/graph_json.h"
#include "memplan/onnx.h"
#include "memplan/workloads/own_device.h"

mp_workload_options mp_workload_defaults(void)
{
    mp_workload_options o = {0};
    for (int k = 0; k < MP_N_WORKLOAD_OPTIONS; k++) {
        const mp_option_row *row = &mp_workload_option_rows[k];
        void *field = (char *)&o + row->offset;
        if (row->kind == MP_VALUE_OFF) *(bool *)field = true;
        if (row->otherwise) *(const char **)field = row->otherwise;
    }
    return o;
}

/* ---- the kind of an input file: an ONNX model, JSON or DOT ---- */

typedef enum file_kind { FILE_ONNX, FILE_JSON, FILE_DOT } file_kind;

/* Returns the kind of file on standard input, by its first bytes. */
static file_kind kind_of_input(void)
{
    static const char *const words[] = {"digraph", "strict", "graph", "//", "/*"};
    char text[64];
    const ssize_t n = pread(STDIN_FILENO, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    const char *at = text;
    while (isspace((unsigned char)*at)) at++;
    if (*at == '{') return FILE_JSON;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strncmp(at, words[k], strlen(words[k]))) return FILE_DOT;
    return FILE_ONNX;
}

static file_kind kind_of(const char *path)
{
    const size_t n = strlen(path);
    if (!strcmp(path, "-")) return kind_of_input();
    if (n >= 5 && !strcmp(path + n - 5, ".json")) return FILE_JSON;
    return mp_graph_dot_is(path) ? FILE_DOT : FILE_ONNX;
}

bool mp_workload_is_graph(const char *path)
{
    return kind_of(path) != FILE_ONNX;
}

/* ---- the title ---- */

mp_rules mp_workload_rules(const mp_workload *w)
{
    const char *name = json_string_value(json_object_get(w->details->options, "rules"));
    const int rules = name ? mp_rules_find(name) : -1;
    return rules < 0 ? MP_RULES_EXECUTOR : (mp_rules)rules;
}

int64_t mp_workload_batch(const mp_workload *w)
{
    const mp_model *m = w->model;
    json_t *batch = json_object_get(w->details->options, "batch"), *dims, *size;
    const char *name;
    if (json_is_integer(batch)) return json_integer_value(batch);
    dims = json_object_get(w->details->options, "dims");
    json_object_foreach(dims, name, size)
    {
        if (mp_onnx_is_batch_name(name) && json_is_integer(size)) return json_integer_value(size);
    }
    for (size_t k = 0; m && k < m->n_inputs; k++) {
        const mp_tensor *t = &m->tensors[m->inputs[k]];
        if (t->role == MP_ROLE_DATA && t->rank > 0) return t->dims[0];
    }
    return 0;
}

/* Writes the workload's title, "resnet50, batch 32". If a graph has no name, the title contains its file's path. */
static void write_title(mp_workload *w)
{
    const int64_t batch = mp_workload_batch(w);
    const char *name = w->graph->name && *w->graph->name ? w->graph->name : w->path;
    snprintf(w->title, sizeof w->title, "%s%s", name, batch > 0 ? mp_text(", batch %lld", (long long)batch) : "");
}

/* Writes the heading of pictures: the title, and the options by which this step differs from other steps of the same network.
 */
static void write_heading(mp_workload *w)
{
    static const char *const stated[] = {"mesh", "rank", "dtype", "amp"};
    const json_t *options = w->details->options;
    const char *text = mp_text("%s", w->title), *dimension, *value;
    json_t *size;
    json_object_foreach(json_object_get(options, "dims"), dimension, size)
    {
        if (!mp_onnx_is_batch_name(dimension) && json_is_integer(size))
            text = mp_text("%s, %s %lld", text, dimension, (long long)json_integer_value(size));
    }
    for (size_t k = 0; k < sizeof stated / sizeof *stated; k++) {
        value = json_string_value(json_object_get(options, stated[k]));
        if (!value || !*value || !strcmp(value, "none")) continue;
        const bool is_named = !strcmp(stated[k], "rank") || !strcmp(stated[k], "amp");
        text = mp_text("%s, %s%s%s", text, is_named ? stated[k] : "", is_named ? " " : "", value);
    }
    value = json_string_value(json_object_get(options, "row_chunks"));
    if (value && strchr(value, '=')) text = mp_text("%s, chunks %s", text, value);
    snprintf(w->heading, sizeof w->heading, "%s%s%s", text, *w->graph->target ? ", " : "", w->graph->target);
}

/* ---- loading ---- */

static mp_status load_model(mp_workload *w, const mp_workload_options *o, mp_error *err)
{
    mp_pipeline_shape pipeline;
    mp_workload_options read = *o;
    MP_CHECK(mp_workload_pipeline(o, &pipeline, err));
    if (pipeline.n_micro_batches > 1) read.batch /= pipeline.n_micro_batches;
    MP_CHECK(mp_workload_model(w->path, &read, &w->model, err));
    if (*w->model->path) w->file = w->path;
    mp_note_version(w);
    w->details->inference = mp_model_inference_form(w->model);
    if (o->keep_inference_norms) MP_CHECK(mp_model_keep_inference_norms(w->model, err));
    mp_note_weights(w);
    MP_CHECK(mp_workload_build(w, o, &pipeline, err));
    mp_note_inference_form(w, o->keep_inference_norms);
    return mp_rules_find(o->rules) == MP_RULES_PYTORCH ? mp_note_guesses(w, err) : MP_OK;
}

mp_status mp_workload_load(const char *path, const mp_workload_options *o, mp_workload *out, mp_error *err)
{
    MP_ABOUT(err, path);
    *out = (mp_workload){.path = path};
    out->details = mp_alloc(1, sizeof *out->details);
    if (!out->details || !(out->details->pool = mp_pool_new())) return MP_NO_MEMORY(err);
    switch (kind_of(path)) {
    case FILE_DOT:
        MP_CHECK(mp_graph_dot_read(path, &out->graph, err));
        break;
    case FILE_JSON:
        MP_CHECK(mp_graph_read(path, &out->graph, err));
        break;
    case FILE_ONNX:
        MP_CHECK(load_model(out, o, err));
        break;
    }
    out->details->options = mp_json_parse(out->graph->options);
    MP_ENSURE(out->details->options, err, MP_NOMEM, "the options");
    MP_CHECK(mp_problem_new(out->graph, &out->problem, err));
    write_title(out);
    write_heading(out);
    return out->details->lacks_notes ? MP_NO_MEMORY(err) : MP_OK;
}

/* Reads the `options` object of a plan file. Release *out with json_decref. MP_PARSE, MP_IO. */
static mp_status plan_options(const char *path, json_t **out, mp_error *err)
{
    json_t *plan, *found;
    MP_CHECK(mp_json_read(path, "memplan-plan", &plan, err));
    found = json_object_get(plan, "options");
    *out = found ? json_incref(found) : json_object();
    json_decref(plan);
    return *out ? MP_OK : MP_FAIL(err, MP_NOMEM, "the plan's options");
}

mp_status mp_workload_load_as_planned(const char *path, const char *plan_path, mp_workload_options *o, const bool *given,
                                      mp_workload *out, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *source = NULL;
    if (plan_path && !mp_workload_is_graph(path)) {
        MP_CHECK(plan_options(plan_path, &source, err));
        const mp_status st = mp_workload_options_adopt(o, given, source, err);
        if (st != MP_OK) mp_error_locate(err, plan_path, 0, 0);
        MP_CHECK(st);
    }
    return mp_workload_load(path, o, out, err);
}

mp_status mp_workload_load_with_plan(const char *path, const char *plan_path, mp_workload_options *o, const bool *given,
                                     mp_workload *out, mp_error *err)
{
    MP_CHECK(mp_workload_load_as_planned(path, plan_path, o, given, out, err));
    if (!plan_path) return MP_OK;
    mp_status st = mp_plan_read(plan_path, out->graph, &out->plan, err);
    if (st == MP_OK) st = mp_plan_check(out->graph, out->plan, err);
    if (st == MP_OK) st = mp_workload_check_held(out, out->plan->steps, out->plan->n_steps, err);
    if (st != MP_OK) mp_error_locate(err, plan_path, 0, 0);
    return st;
}

/* ---- tensors by name ---- */

static mp_status unknown_name(const mp_workload *s, const char *name, mp_error *err)
{
    mp_nearest n = mp_nearest_to(name);
    for (size_t k = 0; s->model && k < s->model->n_tensors; k++) mp_nearest_offer(&n, s->model->tensors[k].name);
    for (size_t k = 0; k < s->graph->n_storages; k++)
        for (size_t t = 0; t < s->graph->storages[k].n_tensors; t++) mp_nearest_offer(&n, s->graph->storages[k].tensors[t]);
    const char *close = mp_nearest_found(&n);
    if (close) return MP_FAIL(err, MP_INVALID, "there is no tensor '%s' to keep; did you mean '%s'?", name, close);
    return MP_FAIL(err, MP_INVALID, "there is no tensor '%s' to keep", name);
}

static mp_status find_checkpoint(mp_workload *s, const mp_names *names, const char *name, int *storage, mp_error *err)
{
    const char *stands = name;
    int tensor = s->model ? mp_model_find(s->model, name) : -1;
    if (tensor >= 0) stands = s->model->tensors[mp_model_resolve(s->model, tensor)].name;
    int found = mp_names_find(names, stands);
    if (found < 0 && tensor < 0) return unknown_name(s, name, err);
    MP_ENSURE(found >= 0, err, MP_INVALID, "tensor '%s' is not computed in the training step, so it cannot be kept", name);
    const mp_storage *row = &s->graph->storages[found];
    int producer = s->graph->producer[found];
    if (mp_storage_is_static(row) || producer < 0 || s->graph->nodes[producer].phase != MP_PHASE_FORWARD)
        return MP_FAIL(err, MP_INVALID, "'%s' (%s) is not an activation of the forward pass, so it cannot be a checkpoint",
                       name, mp_kind_name(row->kind));
    if (tensor >= 0 && mp_model_resolve(s->model, tensor) != tensor)
        mp_workload_note(s, MP_NOTE_CHECKPOINT, "checkpoint %s was simplified away; %s replaces it", name, stands);
    *storage = found;
    return MP_OK;
}

mp_status mp_workload_checkpoints(mp_workload *s, const char *text, int **list, size_t *n, mp_error *err)
{
    MP_OWNED_BY(mp_names_free) mp_names *names = mp_plan_checkpoint_names(s->graph);
    size_t length = strlen(text), found = 0, capacity = 1;
    for (size_t k = 0; k < length; k++) capacity += text[k] == ',';
    MP_OWNED int *storages = mp_alloc(capacity, sizeof *storages);
    MP_OWNED char *copy = mp_alloc(length + 1, 1);
    MP_ENSURE(storages && copy && names, err, MP_NOMEM, "the checkpoints");
    memcpy(copy, text, length);
    for (char *name = copy, *next; name; name = next) {
        next = strchr(name, ',');
        if (next) *next++ = 0;
        MP_ENSURE(*name, err, MP_INVALID, "--checkpoints has an empty name in its list");
        int storage = -1;
        bool again = false;
        MP_CHECK(find_checkpoint(s, names, name, &storage, err));
        /* true if an earlier name denotes the same storage */
        for (size_t k = 0; k < found; k++) again |= storages[k] == storage;
        if (!again) storages[found++] = storage;
    }
    if (s->details->lacks_notes) return MP_NO_MEMORY(err);
    *list = storages;
    *n = found;
    storages = NULL;
    return MP_OK;
}

/* ---- its parts ---- */

const char *const *mp_workload_passes(const mp_workload *w)
{
    return w->details->passes;
}

mp_graph *mp_workload_take_graph(mp_workload *w)
{
    mp_graph *graph = w->graph;
    w->graph = w->rank.graph = NULL;
    if (w->program) w->program->graph = NULL;
    return graph;
}

static void details_free(mp_workload_details *d)
{
    if (!d) return;
    mp_split_free(&d->split);
    if (d->options) json_decref(d->options);
    mp_pool_free(d->pool);
    mp_free(d);
}

void mp_workload_free(mp_workload *w)
{
    mp_plan_free(w->plan);
    mp_problem_free(w->problem);
    if (!w->program) mp_graph_free(w->graph);
    mp_program_free(w->program);
    mp_model_free(w->model);
    w->rank.graph = NULL; /* rank.graph is `graph` itself, which has been freed */
    mp_rank_free(&w->rank);
    mp_free(w->begins);
    mp_free(w->folder);
    mp_free(w->notes);
    details_free(w->details);
    *w = (mp_workload){0};
}

void mp_text_list_free(mp_text_list *list)
{
    if (list->capacity) mp_free(list->items);
    *list = (mp_text_list){0};
}

void mp_workload_options_free(mp_workload_options *o)
{
    for (int k = 0; k < MP_N_WORKLOAD_OPTIONS; k++) {
        const mp_option_row *row = &mp_workload_option_rows[k];
        if (row->kind == MP_VALUE_LIST || row->kind == MP_VALUE_BINDING) mp_text_list_free((void *)((char *)o + row->offset));
    }
    json_decref(o->adopted);
    o->adopted = NULL;
}
