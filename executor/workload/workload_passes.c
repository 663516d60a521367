/* workload_passes.c - the passes from a model to the training graph of one rank, in execution order. Each pass has a name and a
 * condition. */
#include "executor/workload/workload.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "estimator/parallel/buckets.h"
#include "estimator/parallel/experts.h"
#include "estimator/parallel/statistics.h"
#include "estimator/training/accuracy.h"
#include "estimator/training/adapters.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/program/program_split.h"
#include "executor/workload/chunk_numbers.h"
#include "executor/workload/options_json.h"
#include "executor/workload/workload_mesh.h"
#include "executor/workload/workload_offload.h"
#include "formats/base/nearest.h"
#include "formats/json/json.h"
#include "memplan/costs_json.h"
#include "memplan/workloads/own_device.h"

/* The state that the passes of building a workload share. */
typedef struct building {
    mp_workload *w;
    const mp_workload_options *o;
    const mp_pipeline_shape *pipeline;
    const mp_backend *backend; /* the backend that prepares the program; NULL: memplan can only plan for this device */
    mp_own_device device;
    mp_training_options wanted;
    mp_loss_settings loss_settings;
    char *text; /* owns wanted.options_json */
    int loss;   /* the tensor of the loss; -1: none */
} building;

static void building_clear(building *b)
{
    mp_loss_settings_free(&b->loss_settings);
    mp_free(b->text);
}

static mp_dtype dtype_of(const char *name)
{
    return !strcmp(name, "fp16")   ? MP_DTYPE_FLOAT16
           : !strcmp(name, "bf16") ? MP_DTYPE_BFLOAT16
           : !strcmp(name, "fp32") ? MP_DTYPE_FLOAT
                                   : MP_DTYPE_UNDEFINED;
}

/* True if memplan's executor can run the training graph of one rank. A pipeline can be run under some schedules only. */
static bool is_for_execution(const building *b)
{
    const mp_pipeline_shape *p = b->pipeline;
    const bool is_known = p->schedule == MP_SCHEDULE_GPIPE || p->schedule == MP_SCHEDULE_1F1B;
    return b->backend && b->wanted.rules == MP_RULES_EXECUTOR && (!p->n_ranks || (is_known && !b->o->runs_alone));
}

/* True if a backend can run the model split over ranks. If not, plans are made for a device profile, and `refusal` holds the
 * reason. */
static bool is_executable_split(const building *b)
{
    mp_workload_details *d = b->w->details;
    const mp_mesh *mesh = &b->w->ranks.mesh;
    const bool has_experts = mesh->size[MP_DIM_EP] > 1;
    if (!has_experts && mesh->size[MP_DIM_TP] == 1) return true;
    if (has_experts || !b->backend->is_host)
        (void)MP_FAIL(&d->refusal, MP_UNSUPPORTED, "%s can be planned but not trained yet (mesh %s)",
                      has_experts ? "ep" : "tp on GPUs", mp_mesh_write(mesh).text);
    else if (mesh->scatter)
        (void)MP_FAIL(&d->refusal, MP_UNSUPPORTED, "scatter=1 can be planned but not trained yet (mesh %s)",
                      mp_mesh_write(mesh).text);
    else if (d->split.misdealt_for)
        (void)MP_FAIL(&d->refusal, MP_UNSUPPORTED,
                      "'%s' reads a tensor that is split differently; this can be planned but not trained yet (mesh %s)",
                      d->split.misdealt_for, mp_mesh_write(mesh).text);
    else
        (void)mp_split_check(b->w->model, mesh, b->loss, &d->refusal);
    return d->refusal.code == MP_OK;
}

/* ---- the passes ---- */

/* Applies the settings that change how the backend computes (fast, TF32, ...). If the device is missing, this error is
 * reported first. */
static mp_status set_backend(const building *b, mp_error *err)
{
    const mp_backend *backend = b->backend;
    const mp_workload_options *o = b->o;
    mp_backend_settings settings = MP_BACKEND_SETTINGS;
    const bool can_settle = backend && backend->settle;
    settings.tf32 = o->tf32;
    settings.fast = o->fast;
    if (o->rates) settings.rates = mp_rates_of(o->rates);
    if (o->workspace_limit) settings.workspace_limit = o->workspace_limit;
    MP_ENSURE(can_settle || !(o->fast || o->workspace_limit), err, MP_INVALID,
              "--fast and --workspace-limit need --device cuda");
    MP_ENSURE(can_settle || !backend || !o->tf32, err, MP_INVALID, "--tf32 is for GPUs: --device cuda, or the profile of one");
    if (can_settle) backend->settle(backend, &settings);
    return backend && o->opens_device ? backend->open(backend, err) : MP_OK;
}

static mp_status read_settings(building *b, mp_error *err)
{
    const mp_workload_options *options = b->o;
    MP_OWNED_BY(json_decref) json_t *json = mp_workload_options_json(options);
    b->wanted = (mp_training_options){.loss = (mp_loss)mp_loss_find(options->loss),
                                      .output = options->output,
                                      .optimizer = (mp_optimizer)mp_optimizer_find(options->optimizer),
                                      .fuse = (mp_fuse)mp_fuse_find(options->fuse),
                                      .dtype = dtype_of(options->dtype),
                                      .amp = dtype_of(options->amp),
                                      .rules = (mp_rules)mp_rules_find(options->rules),
                                      .freeze = options->freeze.items,
                                      .n_freeze = options->freeze.n,
                                      .clip_norm = options->clip_norm,
                                      .inexact = options->inexact,
                                      .accumulate = (int)options->accumulate};
    /* gradients accumulate over the micro-batches of a pipeline */
    if (b->pipeline->n_micro_batches > 1) b->wanted.accumulate = (int)b->pipeline->n_micro_batches;
    MP_ENSURE(!b->wanted.amp || b->wanted.dtype == MP_DTYPE_FLOAT, err, MP_INVALID,
              "--amp %s keeps parameters and gradients in fp32, which contradicts --dtype %s", options->amp, options->dtype);
    MP_CHECK(mp_loss_settings_read(options, &b->loss_settings, err));
    b->wanted.loss_options = b->loss_settings.wanted;
    MP_CHECK(mp_workload_device(options, &b->backend, &b->device, err));
    b->wanted.for_gpu = !b->backend || !b->backend->is_host;
    MP_CHECK(set_backend(b, err));
    if (b->backend && b->backend->threads(b->backend))
        mp_json_set(&json, "threads", json_integer(b->backend->threads(b->backend)));
    MP_ENSURE(b->wanted.options_json = b->text = json ? mp_json_print(json, 0) : NULL, err, MP_NOMEM, "the options");
    return MP_OK;
}

static mp_status simplify(building *b, mp_error *err)
{
    return mp_model_simplify(b->w->model, b->wanted.rules, b->o->simplify, &b->w->details->simplified, err);
}

/* Attention becomes one operator if the backend has a kernel for it. Under PyTorch's rules no kernel is needed, because nothing
 * is run. */
static bool fuses_attention(const building *b)
{
    const mp_operator fused = {
        .kind = "ScaledDotProductAttention", .domain = "memplan", .op = mp_op_find("memplan", "ScaledDotProductAttention", 1)};
    return b->o->simplify && b->o->fused_attention &&
           (b->wanted.rules == MP_RULES_PYTORCH || !b->backend || b->backend->kernel(b->backend, &fused));
}

static mp_status fuse_attention(building *b, mp_error *err)
{
    mp_workload_details *d = b->w->details;
    const bool mask_gradients = b->backend && b->backend->gives_mask_gradients;
    MP_CHECK(mp_model_fuse_attention(b->w->model, b->wanted.rules, mask_gradients, &d->attention, err));
    d->simplified.patterns += d->attention.n;
    return MP_OK;
}

static bool cuts_sequences(const building *b)
{
    return b->o->chunk_steps || (b->o->simplify && b->wanted.rules == MP_RULES_EXECUTOR);
}

static mp_status cut_sequences(building *b, mp_error *err)
{
    return mp_model_cut_sequences(b->w->model, b->o->chunk_steps, &b->w->details->sequences, err);
}

static bool has_adapters(const building *b)
{
    return b->o->lora.n;
}

static mp_status add_adapters(building *b, mp_error *err)
{
    const mp_adapters adapters = {.wanted = b->o->lora.items,
                                  .n = b->o->lora.n,
                                  .train = b->o->train.items,
                                  .n_train = b->o->train.n,
                                  .rules = b->wanted.rules};
    return mp_model_add_adapters(b->w->model, &adapters, err);
}

static bool names_output(const building *b)
{
    return b->o->output;
}

/* Finds the tensor named by `output`. If simplification removed the tensor, finds the tensor that replaced it. */
static mp_status find_output(building *b, mp_error *err)
{
    const mp_model *model = b->w->model;
    const char *name = b->o->output;
    const int tensor = mp_model_find(model, name);
    if (tensor >= 0) {
        b->wanted.output = model->tensors[mp_model_resolve(model, tensor)].name;
        return MP_OK;
    }
    mp_nearest n = mp_nearest_to(name);
    for (size_t k = 0; k < model->n_tensors; k++) mp_nearest_offer(&n, model->tensors[k].name);
    const char *close = mp_nearest_found(&n);
    if (close) return MP_FAIL(err, MP_INVALID, "--output: there is no tensor '%s'; did you mean '%s'?", name, close);
    return MP_FAIL(err, MP_INVALID, "--output: there is no tensor '%s'", name);
}

static mp_status read_mesh(building *b, mp_error *err)
{
    mp_ranks *ranks = &b->w->ranks;
    MP_CHECK(mp_workload_mesh(b->o, &b->device, ranks, err));
    ranks->for_execution = is_for_execution(b) && b->backend->is_host;
    b->wanted.gathers_low = b->wanted.amp && b->wanted.rules == MP_RULES_PYTORCH && (ranks->mesh.zero == 3 || b->o->shares_all);
    b->wanted.sums_each_pass = ranks->mesh.zero >= 2;
    return MP_OK;
}

static mp_status add_loss(building *b, mp_error *err)
{
    return mp_model_add_loss(b->w->model, &b->wanted, &b->loss, err);
}

static bool chunks_rows(const building *b)
{
    return b->o->row_chunks;
}

/* Computes the head of the network and its loss in n chunks of rows; 0 or 1: stays whole. */
static mp_status chunk_head(building *b, int n, mp_error *err)
{
    mp_loss_chunks *found = &b->w->details->loss_chunks;
    if (b->loss < 0 && n < 2) return MP_OK;
    MP_CHECK(mp_model_chunk_loss(b->w->model, b->loss, n, found, err));
    MP_ENSURE(n < 2 || !found->reason, err, MP_INVALID, "--row-chunks: %s", found->reason);
    return MP_OK;
}

/* Computes the head, and the regions of all other kinds, in chunks of rows. */
static mp_status chunk_rows(building *b, mp_error *err)
{
    const int64_t of_kernels = b->wanted.for_gpu ? 256 : 4, of_device = b->device.profile.alignment;
    mp_row_regions *regions = &b->w->details->row_regions;
    int n[MP_N_CHUNK_KINDS], most = 0;
    MP_CHECK(mp_chunk_numbers_read(b->o->row_chunks, n, err));
    for (int k = 0; k < MP_N_CHUNK_KINDS; k++) most = n[k] > most ? n[k] : most;
    if (most < 2 && n[MP_CHUNK_HEAD]) return MP_OK; /* with "auto" all numbers are 0: regions are counted below */
    MP_CHECK(chunk_head(b, n[MP_CHUNK_HEAD], err));
    MP_CHECK(mp_model_chunk_rows(b->w->model, n, mp_smaller(of_kernels, of_device), regions, err));
    for (int k = MP_CHUNK_HEAD + 1; k < MP_N_CHUNK_KINDS; k++)
        MP_ENSURE(n[k] < 2 || regions->kinds[k].n, err, MP_INVALID,
                  "--row-chunks: the model has no region '%s' with two rows or more; omit %s=%d",
                  mp_chunk_kind_name((mp_chunk_kind)k), mp_chunk_kind_name((mp_chunk_kind)k), n[k]);
    return MP_OK;
}

static bool has_experts(const building *b)
{
    return b->w->ranks.mesh.size[MP_DIM_EP] > 1;
}

static mp_status spread_experts(building *b, mp_error *err)
{
    return mp_model_spread_experts(b->w->model, &b->w->ranks.mesh, err);
}

static bool is_split(const building *b)
{
    return b->w->ranks.mesh.size[MP_DIM_TP] > 1;
}

static mp_status split(building *b, mp_error *err)
{
    return mp_model_split(b->w->model, &b->w->ranks, &b->w->details->split, err);
}

static bool shares_statistics(const building *b)
{
    return b->w->ranks.shares_statistics;
}

static mp_status share_statistics(building *b, mp_error *err)
{
    return mp_model_share_statistics(b->w->model, &b->w->ranks, err);
}

static void note_accuracy(const building *b, const mp_device *device, const mp_spending *spending)
{
    if (mp_has_achieved_rates(device) && !b->o->costs) mp_note_accuracy(b->w, spending);
}

/* Builds the program with its graph, or, if the executor cannot run it, the graph alone. */
static mp_status build_graph(building *b, mp_error *err)
{
    mp_workload *w = b->w;
    if (is_for_execution(b) && is_executable_split(b)) {
        MP_CHECK(mp_program_build(b->backend, w->model, &b->wanted, b->loss, &w->program, err));
        w->graph = w->program->graph;
        note_accuracy(b, b->backend->device(b->backend), &w->program->spending);
        return MP_OK;
    }
    const mp_device rounding = mp_device_at_tf32(&b->device.profile);
    mp_counted_device counted = {.device = b->o->tf32 ? &rounding : &b->device.profile};
    const mp_target own = mp_counted_target(&counted);
    mp_split_target split = {.own = &own, .ranks = &w->ranks};
    const mp_target target = mp_target_of_split(&split);
    MP_CHECK(mp_training_graph(w->model, &b->wanted, b->loss, &target, &w->graph, err));
    note_accuracy(b, counted.device, &counted.spending);
    return MP_OK;
}

static bool has_costs(const building *b)
{
    return b->o->costs;
}

static mp_status apply_costs(building *b, mp_error *err)
{
    const mp_costs_options costs = {.fast = b->o->fast, .workspace_limit = b->o->workspace_limit};
    MP_CHECK(mp_costs_apply(b->o->costs, b->w->graph, &costs, err));
    return b->w->program ? mp_program_take_algorithms(b->w->program, err) : MP_OK;
}

static bool has_program(const building *b)
{
    return b->w->program;
}

static mp_status price_split(building *b, mp_error *err)
{
    return mp_program_price_split(b->w->program, &b->w->ranks, err);
}

static bool is_pipeline(const building *b)
{
    return b->pipeline->n_ranks && !b->o->leaves_whole;
}

static mp_status cut(building *b, mp_error *err)
{
    return mp_workload_cut(b->o, b->pipeline, &b->device.profile, b->w, err);
}

static bool sums(const building *b)
{
    return !b->o->leaves_sums;
}

static mp_status add_collectives(building *b, mp_error *err)
{
    mp_workload *w = b->w;
    if (!w->program) return mp_graph_exchange(w->graph, &w->ranks, err);
    return mp_program_exchange(w->program, &w->ranks, b->o->reduce && !strcmp(b->o->reduce, "fast"), err);
}

static bool is_stage(const building *b)
{
    return is_pipeline(b) && sums(b);
}

static mp_status hold(building *b, mp_error *err)
{
    return mp_workload_hold_asked(b->o, b->w, err);
}

static bool copies(const building *b)
{
    return sums(b) && (b->o->offload.n || b->o->link.n || b->o->offload_state);
}

static mp_status add_copies(building *b, mp_error *err)
{
    return mp_workload_offload(b->o, &b->device, b->w, err);
}

static bool names_units(const building *b)
{
    return b->w->ranks.n_units;
}

static mp_status check_units(building *b, mp_error *err)
{
    return mp_exchange_check_units(b->w->graph, &b->w->ranks, err);
}

static const struct pass {
    const char *name;
    bool (*applies)(const building *b); /* NULL: always */
    mp_status (*run)(building *b, mp_error *err);
} passes[] = {{"settings", NULL, read_settings},
              {"simplify", NULL, simplify},
              {"fuse attention", fuses_attention, fuse_attention},
              {"cut sequences", cuts_sequences, cut_sequences},
              {"adapters", has_adapters, add_adapters},
              {"output", names_output, find_output},
              {"mesh", NULL, read_mesh},
              {"loss", NULL, add_loss},
              {"chunk rows", chunks_rows, chunk_rows},
              {"spread experts", has_experts, spread_experts},
              {"split operators", is_split, split},
              {"share statistics", shares_statistics, share_statistics},
              {"training graph", NULL, build_graph},
              {"units of fully_shard", names_units, check_units},
              {"measured costs", has_costs, apply_costs},
              {"costs of the split", has_program, price_split},
              {"cut into stages", is_pipeline, cut},
              {"collectives", sums, add_collectives},
              {"stash", is_stage, hold},
              {"copies", copies, add_copies}};

mp_status mp_workload_traffic(const mp_workload *w, const mp_step *steps, size_t n, mp_rank_traffic *out, mp_error *err)
{
    mp_traffic_of(w->graph, steps, n, w->n_passes ? w->n_passes : 1, NULL, out);
    return mp_rank_add_repeated(w->graph, &w->rank.shape, w->rank.rank, steps, n, NULL, out, err);
}

static mp_status count_traffic(mp_workload *w, mp_error *err)
{
    MP_OWNED mp_step *steps = mp_alloc(w->graph->n_nodes, sizeof *steps);
    if (!steps) return MP_NO_MEMORY(err);
    return mp_workload_traffic(w, steps, mp_keep_all(w->graph, steps), &w->traffic, err);
}

mp_status mp_workload_build(mp_workload *w, const mp_workload_options *o, const mp_pipeline_shape *pipeline, mp_error *err)
{
    MP_CLEARED_BY(building_clear) building b = {.w = w, .o = o, .pipeline = pipeline, .loss = -1};
    for (size_t k = 0; k < sizeof passes / sizeof *passes; k++) {
        if (passes[k].applies && !passes[k].applies(&b)) continue;
        MP_CHECK(passes[k].run(&b, err));
        w->details->passes[w->details->n_passes++] = passes[k].name;
    }
    w->n_passes = b.wanted.accumulate > 1 ? b.wanted.accumulate : 1;
    return count_traffic(w, err);
}
