/* subject.c - loads the subject of a command: builds the training graph from the model's path and the options, and chooses the
 * backend that can run it. */
#include "cli/subject/subject.h"

#include <stdio.h>
#include <string.h>

#include "cli/messages/input.h"
#include "cli/messages/messages.h"
#include "cli/messages/nearest.h"
#include "cli/options/options.h"
#include "estimator/parallel/experts.h"
#include "estimator/parallel/statistics.h"
#include "estimator/training/adapters.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/run/program_split.h"
#include "formats/json/json.h"
#include "formats/json/plan_json.h"
#include "formats/onnx/onnx.h"
#include "memplan/check.h"
#include "memplan/costs_json.h"
#include "memplan/graph_dot.h"
#include "memplan/graph_json.h"
#include "memplan/onnx.h"

static bool is_dot(const char *path)
{
    return strcmp(path, "-") ? mp_graph_dot_is(path) : input_kind() == 'd';
}

bool subject_is_graph(const char *path)
{
    size_t n = strlen(path);
    if (!strcmp(path, "-")) return input_kind() != 'o';
    return (n >= 5 && !strcmp(path + n - 5, ".json")) || mp_graph_dot_is(path);
}

static mp_status no_model_options(const options *o, mp_error *err)
{
    for (int k = 0; k < N_OPTIONS; k++)
        if (option_rows[k].key && option_given(o, (option_id)k))
            return MP_FAIL(err, MP_INVALID, "--%s applies to models, but the input is a training graph", option_rows[k].name);
    return MP_OK;
}

static mp_dtype dtype_of(const char *name)
{
    return !strcmp(name, "fp16")   ? MP_DTYPE_FLOAT16
           : !strcmp(name, "bf16") ? MP_DTYPE_BFLOAT16
           : !strcmp(name, "fp32") ? MP_DTYPE_FLOAT
                                   : MP_DTYPE_UNDEFINED;
}

/* Finds the tensor that --output names. If simplification removed it, finds the tensor that replaced it. */
static mp_status find_output(const mp_model *model, const char **name, mp_error *err)
{
    int tensor = mp_model_find(model, *name);
    if (tensor >= 0) {
        *name = model->tensors[mp_model_resolve(model, tensor)].name;
        return MP_OK;
    }
    nearest n = nearest_to(*name);
    for (size_t k = 0; k < model->n_tensors; k++) nearest_offer(&n, model->tensors[k].name);
    const char *close = nearest_found(&n);
    if (close) return MP_FAIL(err, MP_INVALID, "--output: there is no tensor '%s'; did you mean '%s'?", *name, close);
    return MP_FAIL(err, MP_INVALID, "--output: there is no tensor '%s'", *name);
}

/* True if attention is recognised as one operator. The backend must have a kernel for this operator. Under PyTorch's rules no
 * kernel is needed, because memplan does not run the graph. */
static bool fuses_attention(const model_options *o, const mp_backend *backend, mp_rules rules)
{
    const mp_operator fused = {
        .kind = "ScaledDotProductAttention", .domain = "memplan", .op = mp_op_find("memplan", "ScaledDotProductAttention", 1)};
    return o->simplify && o->fused_attention && (rules == MP_RULES_PYTORCH || !backend || backend->kernel(backend, &fused));
}

mp_status subject_device(const model_options *o, const mp_backend **backend, own_device *device, mp_error *err)
{
    const bool is_own = o->own_device && !strcmp(o->device, "cuda");
    MP_CHECK(mp_backend_open(is_own ? mp_text("cuda:%d", o->own_device) : o->device, backend, err));
    if (*backend)
        *device = (own_device){.profile = *(*backend)->device(*backend)};
    else
        MP_ENSURE(device_read(o->device, device), err, MP_INVALID, "there is no device '%s'", o->device);
    return MP_OK;
}

/* Applies the options that change how the backend computes (fast, TF32, ...). If the device is missing, returns that error
 * first. */
static mp_status settle(const options *o, const mp_backend *backend, mp_error *err)
{
    mp_backend_settings settings = MP_BACKEND_SETTINGS;
    bool runs = o->command == CMD_TRAIN || o->command == CMD_PROFILE || (o->search.budget && !strcmp(o->search.budget, "auto"));
    bool settled = backend && backend->settle;
    settings.tf32 = o->model.tf32;
    settings.fast = o->model.fast;
    if (o->model.workspace_limit) settings.workspace_limit = o->model.workspace_limit;
    MP_ENSURE(settled || !(o->model.fast || o->model.workspace_limit), err, MP_INVALID,
              "--fast and --workspace-limit need --device cuda");
    MP_ENSURE(settled || !backend || !o->model.tf32, err, MP_INVALID,
              "--tf32 is for GPUs: --device cuda, or the profile of one");
    if (settled) backend->settle(backend, &settings);
    if (backend && runs) MP_CHECK(backend->open(backend, err));
    return MP_OK;
}

/* True if a backend can run a model that is split over ranks. If none can, a device profile is used for planning, and
 * s->not_run is the reason. */
static bool runs_parts(subject *s, const mp_backend *backend, int loss)
{
    if (s->ranks.mesh.size[MP_DIM_TP] == 1) return true;
    if (!backend->is_host)
        (void)MP_FAIL(&s->not_run, MP_UNSUPPORTED, "tp on GPUs can be planned but not trained yet (mesh %s)",
                      mp_mesh_write(&s->ranks.mesh).text);
    else if (s->split.misdealt_for)
        (void)MP_FAIL(&s->not_run, MP_UNSUPPORTED,
                      "'%s' reads a tensor that is split differently; this can be planned but not trained yet (mesh %s)",
                      s->split.misdealt_for, mp_mesh_write(&s->ranks.mesh).text);
    else
        (void)mp_split_check(s->model, &s->ranks.mesh, loss, &s->not_run);
    return s->not_run.code == MP_OK;
}

/* True if memplan can run the training graph, so that a program is built from it. A pipeline can be run under some schedules
 * only, and not by the commands profile and share. */
static bool is_run(const options *o, const mp_pipeline_shape *pipeline)
{
    const bool is_known = pipeline->schedule == MP_SCHEDULE_GPIPE || pipeline->schedule == MP_SCHEDULE_1F1B;
    return !pipeline->n_ranks || (is_known && o->command != CMD_PROFILE && o->command != CMD_SHARE);
}

static mp_status build_graph(subject *s, const options *o, const mp_pipeline_shape *pipeline, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *json = options_to_json(o);
    MP_OWNED char *text = NULL;
    const mp_backend *backend = NULL;
    own_device device = {0};
    mp_rank_traffic shared;
    mp_training_options wanted = {.loss = (mp_loss)mp_loss_find(o->model.loss),
                                  .output = o->model.output,
                                  .optimizer = (mp_optimizer)mp_optimizer_find(o->model.optimizer),
                                  .fuse = (mp_fuse)mp_fuse_find(o->model.fuse),
                                  .dtype = dtype_of(o->model.dtype),
                                  .amp = dtype_of(o->model.amp),
                                  .rules = (mp_rules)mp_rules_find(o->model.rules),
                                  .freeze = o->model.freeze.items,
                                  .n_freeze = o->model.freeze.n,
                                  .clip_norm = o->model.clip_norm,
                                  .inexact = o->model.inexact,
                                  .accumulate = (int)o->model.accumulate};
    MP_CLEARED_BY(loss_options_free) loss_options details = {0};
    int loss;
    /* gradients are accumulated over the micro-batches of a step */
    if (pipeline->n_micro_batches > 1) wanted.accumulate = (int)pipeline->n_micro_batches;
    MP_ENSURE(!wanted.amp || wanted.dtype == MP_DTYPE_FLOAT, err, MP_INVALID,
              "--amp %s keeps parameters and gradients in fp32, which contradicts --dtype %s", o->model.amp, o->model.dtype);
    MP_CHECK(loss_options_read(&o->model, &details, err));
    wanted.loss_options = details.wanted;
    MP_CHECK(subject_device(&o->model, &backend, &device, err));
    wanted.for_gpu = !backend || !backend->is_host;
    MP_CHECK(settle(o, backend, err));
    if (backend && backend->threads(backend)) mp_json_set(&json, "threads", json_integer(backend->threads(backend)));
    MP_ENSURE(wanted.options_json = text = json ? mp_json_print(json, 0) : NULL, err, MP_NOMEM, "the options");
    MP_CHECK(mp_model_simplify(s->model, wanted.rules, o->model.simplify, &s->simplified, err));
    if (fuses_attention(&o->model, backend, wanted.rules)) {
        const bool mask_gradients = backend && backend->gives_mask_gradients;
        MP_CHECK(mp_model_fuse_attention(s->model, wanted.rules, mask_gradients, &s->attention, err));
        s->simplified.patterns += s->attention.n;
    }
    if (o->model.chunk_steps || (o->model.simplify && wanted.rules == MP_RULES_EXECUTOR))
        MP_CHECK(mp_model_cut_sequences(s->model, o->model.chunk_steps, &s->sequences, err));
    if (o->model.lora.n) {
        const mp_adapters adapters = {.wanted = o->model.lora.items,
                                      .n = o->model.lora.n,
                                      .train = o->model.train.items,
                                      .n_train = o->model.train.n,
                                      .rules = wanted.rules};
        MP_CHECK(mp_model_add_adapters(s->model, &adapters, err));
    }
    if (wanted.output) MP_CHECK(find_output(s->model, &wanted.output, err));
    MP_CHECK(subject_mesh(o, &device, s, err));
    wanted.gathers_low = wanted.amp && wanted.rules == MP_RULES_PYTORCH && (s->ranks.mesh.zero == 3 || o->model.shares_all);
    MP_CHECK(mp_model_add_loss(s->model, &wanted, &loss, err));
    wanted.sums_each_pass = s->ranks.mesh.zero >= 2;
    s->ranks.runs = backend && backend->is_host && wanted.rules == MP_RULES_EXECUTOR && is_run(o, pipeline);
    MP_CHECK(mp_model_spread_experts(s->model, &s->ranks.mesh, err));
    MP_CHECK(mp_model_split(s->model, &s->ranks, &s->split, err));
    MP_CHECK(mp_model_share_statistics(s->model, &s->ranks, err));
    if (backend && wanted.rules == MP_RULES_EXECUTOR && is_run(o, pipeline) && runs_parts(s, backend, loss)) {
        MP_CHECK(mp_program_build(backend, s->model, &wanted, loss, &s->program, err));
        s->graph = s->program->graph;
    } else {
        const mp_device rounding = mp_device_at_tf32(&device.profile);
        const mp_target own = mp_roofline(o->model.tf32 ? &rounding : &device.profile);
        mp_split_target split = {.own = &own, .ranks = &s->ranks};
        const mp_target target = mp_target_of_split(&split);
        MP_CHECK(mp_training_graph(s->model, &wanted, loss, &target, &s->graph, err));
        s->traffic = split.traffic;
    }
    if (o->model.costs) {
        const mp_costs_options costs = {.fast = o->model.fast, .workspace_limit = o->model.workspace_limit};
        MP_CHECK(mp_costs_apply(o->model.costs, s->graph, &costs, err));
        if (s->program) MP_CHECK(mp_program_take_algorithms(s->program, err));
    }
    if (s->program) MP_CHECK(mp_program_price_split(s->program, &s->ranks, err));
    if (pipeline->n_ranks) MP_CHECK(subject_cut(o, pipeline, &device.profile, s, err));
    if (o->model.leaves_sums) return MP_OK;
    if (s->program)
        MP_CHECK(mp_program_exchange(s->program, &s->ranks, o->model.reduce && !strcmp(o->model.reduce, "fast"), &shared, err));
    else
        MP_CHECK(mp_graph_exchange(s->graph, &s->ranks, &shared, err));
    MP_CHECK(subject_hold_asked(o, s, err));
    s->traffic.n_collectives += shared.n_collectives;
    s->traffic.sent_bytes += shared.sent_bytes;
    s->traffic.seconds += shared.seconds;
    return subject_offload(o, &device, s, err);
}

/* Warns if a model uses a version of the ONNX operator set that memplan does not know. Its operators are then read like those
 * of the last known version. */
static void warn_of_version(const char *path, const mp_model *model)
{
    enum { KNOWN = 28 }; /* the newest version of ONNX's own operator set, as of onnx 1.23 */
    for (size_t k = 0; k < model->n_operators; k++)
        if (!*model->operators[k].domain && model->operators[k].version > KNOWN) {
            complain("%s: warning: the file uses operator set %d; its operators are read as in set %d, the newest known", path,
                     model->operators[k].version, KNOWN);
            return;
        }
}

mp_rules subject_rules(const subject *s)
{
    const char *name = json_string_value(json_object_get(s->options, "rules"));
    const int rules = name ? mp_rules_find(name) : -1;
    return rules < 0 ? MP_RULES_EXECUTOR : (mp_rules)rules;
}

const char *subject_program(const subject *s)
{
    if (!json_object_get(s->options, "rules")) return "";
    return subject_rules(s) == MP_RULES_PYTORCH ? ", in PyTorch" : ", in memplan";
}

int64_t subject_batch(const subject *s)
{
    const mp_model *m = s->model;
    json_t *batch = s->options ? json_object_get(s->options, "batch") : NULL, *dims, *size;
    const char *name;
    if (json_is_integer(batch)) return json_integer_value(batch);
    dims = s->options ? json_object_get(s->options, "dims") : NULL;
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

/* Writes the title of the subject, such as "resnet50, batch 32". If a graph has no name, the title contains the path of its
 * file. */
static void write_title(subject *s)
{
    const int64_t batch = subject_batch(s);
    const char *name = s->graph->name && *s->graph->name ? s->graph->name : s->path;
    snprintf(s->title, sizeof s->title, "%s%s", name, batch > 0 ? mp_text(", batch %lld", (long long)batch) : "");
}

/* Writes the heading of pictures: the title, and the options that distinguish this step from other steps of the same
 * network. */
static void write_heading(subject *s)
{
    static const char *const stated[] = {"mesh", "rank", "dtype", "amp"};
    const char *text = mp_text("%s", s->title), *dimension, *value;
    json_t *size;
    json_object_foreach(json_object_get(s->options, "dims"), dimension, size)
    {
        if (!mp_onnx_is_batch_name(dimension) && json_is_integer(size))
            text = mp_text("%s, %s %lld", text, dimension, (long long)json_integer_value(size));
    }
    for (size_t k = 0; k < sizeof stated / sizeof *stated; k++) {
        value = json_string_value(json_object_get(s->options, stated[k]));
        if (!value || !*value || !strcmp(value, "none")) continue;
        const bool is_named = !strcmp(stated[k], "rank") || !strcmp(stated[k], "amp");
        text = mp_text("%s, %s%s%s", text, is_named ? stated[k] : "", is_named ? " " : "", value);
    }
    snprintf(s->heading, sizeof s->heading, "%s%s%s", text, *s->graph->target ? ", " : "", s->graph->target);
}

mp_status subject_load(const char *path, const options *o, subject *out, mp_error *err)
{
    MP_ABOUT(err, path);
    *out = (subject){.path = path};
    if (subject_is_graph(path)) {
        MP_CHECK(no_model_options(o, err));
        MP_CHECK(is_dot(path) ? mp_graph_dot_read(path, &out->graph, err) : mp_graph_read(path, &out->graph, err));
    } else {
        mp_pipeline_shape pipeline;
        model_options read = o->model;
        MP_CHECK(subject_pipeline(o, &pipeline, err));
        if (pipeline.n_micro_batches > 1) read.batch /= pipeline.n_micro_batches;
        MP_CHECK(subject_model(path, &read, &out->model, err));
        if (*out->model->path) out->file = path;
        warn_of_version(path, out->model);
        out->inference = mp_model_inference_form(out->model);
        if (o->model.keep_inference_norms) MP_CHECK(mp_model_keep_inference_norms(out->model, err));
        warn_of_weights(path, out->model);
        MP_CHECK(build_graph(out, o, &pipeline, err));
        warn_of_inference_form(path, &out->inference, o->model.keep_inference_norms);
        const bool has_attention = out->attention.n + out->attention.n_missed > 0 || out->inference.has_softmax;
        /* no warning: it was printed before, when the plan was made or when the first of two graphs was built */
        const bool is_told = o->model.is_second || o->source;
        if (!is_told && mp_rules_find(o->model.rules) == MP_RULES_PYTORCH)
            MP_CHECK(warn_of_guesses(path, out->model, out->file && has_attention ? &out->inference : NULL, err));
    }
    out->options = mp_json_parse(out->graph->options);
    MP_ENSURE(out->options, err, MP_NOMEM, "the options");
    MP_CHECK(mp_problem_new(out->graph, &out->problem, err));
    write_title(out);
    write_heading(out);
    return MP_OK;
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

mp_status subject_load_as_planned(const char *path, const char *plan_path, options *o, subject *out, mp_error *err)
{
    MP_OWNED_BY(json_decref) json_t *source = NULL;
    if (plan_path && !subject_is_graph(path)) {
        MP_CHECK(plan_options(plan_path, &source, err));
        const mp_status st = options_adopt(o, source, err);
        if (st != MP_OK) mp_error_locate(err, plan_path, 0, 0);
        MP_CHECK(st);
    }
    return subject_load(path, o, out, err);
}

mp_status subject_load_with_plan(const char *path, const char *plan_path, options *o, subject *out, mp_error *err)
{
    MP_CHECK(subject_load_as_planned(path, plan_path, o, out, err));
    if (!plan_path) return MP_OK;
    mp_status st = mp_plan_read(plan_path, out->graph, &out->plan, err);
    if (st == MP_OK) st = mp_plan_check(out->graph, out->plan, err);
    if (st == MP_OK) st = subject_check_held(out, out->plan->steps, out->plan->n_steps, err);
    if (st != MP_OK) mp_error_locate(err, plan_path, 0, 0);
    return st;
}

void subject_free(subject *s)
{
    mp_plan_free(s->plan);
    mp_problem_free(s->problem);
    if (!s->program) mp_graph_free(s->graph);
    mp_program_free(s->program);
    mp_model_free(s->model);
    mp_split_free(&s->split);
    s->rank.graph = NULL; /* rank.graph is the same graph as `graph`, which has been freed */
    mp_rank_free(&s->rank);
    mp_free(s->begins);
    if (s->options) json_decref(s->options);
    mp_free(s->folder);
}

mp_graph *subject_take_graph(subject *s)
{
    mp_graph *graph = s->graph;
    s->graph = s->rank.graph = NULL;
    if (s->program) s->program->graph = NULL;
    return graph;
}
