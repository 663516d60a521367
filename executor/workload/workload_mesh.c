/* workload_mesh.c - reads the mesh and network of a workload. With pp it cuts the graph of one rank out of the whole training
 * graph, and sets the rank's stash for other micro-batches. */
#include "executor/workload/workload_mesh.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/quantities.h"
#include "executor/program/stage.h"
#include "executor/workload/workload.h"
#include "formats/json/json.h"
#include "formats/json/network_json.h"
#include "memplan/ranks/pipeline_cut.h"
#include "memplan/workloads/own_device.h"

enum { USUAL_CHUNKS = 2 };

mp_status mp_workload_network(const char *name, mp_interconnect *out, mp_error *err)
{
    const size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, ".json") ? mp_network_json_read(name, out, err) : mp_network_read(name, out, err);
}

mp_status mp_workload_mesh(const mp_workload_options *o, const mp_own_device *device, mp_ranks *out, mp_error *err)
{
    const bool has_mesh = mp_mesh_devices(&o->mesh);
    MP_ENSURE(has_mesh || (!o->network && !o->bucket && !o->fsdp_units.n && !o->reduce && !o->sync_batchnorm), err, MP_INVALID,
              "--%s applies to the ranks of a mesh; add --mesh",
              o->network        ? "network"
              : o->bucket       ? "bucket"
              : o->fsdp_units.n ? "fsdp-unit"
              : o->reduce       ? "reduce"
                                : "sync-batchnorm");
    const bool shards = o->leaves_sums || o->mesh.zero >= 2; /* leaves_sums: the caller adds the sharding */
    MP_ENSURE(!o->fsdp_units.n || (shards && mp_rules_find(o->rules) == MP_RULES_PYTORCH), err, MP_INVALID,
              "--fsdp-unit applies to PyTorch's fully_shard; add --mesh shard=N --rules pytorch");
    *out = (mp_ranks){.mesh = has_mesh ? o->mesh : mp_mesh_of_one(),
                      .bucket_bytes = o->bucket,
                      .rules = (mp_rules)mp_rules_find(o->rules),
                      .units = o->fsdp_units.items,
                      .n_units = o->fsdp_units.n,
                      .shares_statistics = o->sync_batchnorm};
    return mp_workload_network(o->network ? o->network : mp_network_of_device(device->profile.name), &out->network, err);
}

/* ---- pipelines ---- */

/* Returns the name of the first option for pipelines that was given; NULL: none was given. */
static const char *given_option(const mp_workload_options *m)
{
    return m->micro_batches       ? "micro-batches"
           : m->pipeline_schedule ? "pipeline-schedule"
           : m->chunks            ? "chunks"
           : m->stages            ? "stages"
           : m->rank              ? "rank"
           : m->stash             ? "stash"
                                  : NULL;
}

mp_status mp_workload_pipeline(const mp_workload_options *o, mp_pipeline_shape *out, mp_error *err)
{
    const char *given = given_option(o);
    const int64_t n_ranks = mp_mesh_devices(&o->mesh) ? o->mesh.size[MP_DIM_PP] : 1;
    *out = (mp_pipeline_shape){0};
    MP_ENSURE(n_ranks > 1 || !given, err, MP_INVALID, "--%s applies to the stages of a pipeline; add pp=N to --mesh", given);
    if (n_ranks == 1) return MP_OK;
    const int64_t n = o->micro_batches ? o->micro_batches : o->batch ? o->batch : 1;
    MP_ENSURE(n == 1 || o->batch, err, MP_INVALID, "--micro-batches cuts the batch, so it needs --batch");
    MP_ENSURE(n == 1 || o->batch % n == 0, err, MP_INVALID, "%lld micro-batches do not divide a batch of %lld", (long long)n,
              (long long)o->batch);
    enum { MOST = 1 << 20 };
    MP_ENSURE(n_ranks <= MOST && n <= MOST && o->chunks <= MOST, err, MP_INVALID,
              "a pipeline can have at most %d stages and as many micro-batches", MOST);
    const mp_schedule schedule = o->pipeline_schedule ? (mp_schedule)mp_schedule_find(o->pipeline_schedule) : MP_SCHEDULE_1F1B;
    const bool interleaves = schedule == MP_SCHEDULE_INTERLEAVED;
    *out = (mp_pipeline_shape){.schedule = schedule,
                               .n_ranks = (int)n_ranks,
                               .n_chunks = o->chunks     ? (int)o->chunks
                                           : interleaves ? USUAL_CHUNKS
                                                         : 1,
                               .n_micro_batches = n};
    return mp_schedule_check(out, err);
}

/* Parses --stages, such as "0,6,12": the first block of each stage. */
static mp_status read_begins(const char *text, int n, int *begins, mp_error *err)
{
    int k = 0;
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL, k++) {
        char number[16];
        int64_t block;
        end = at + strcspn(at, ",");
        snprintf(number, sizeof number, "%.*s", (int)(end - at), at);
        MP_ENSURE(mp_count_parse(number, &block) && block < INT32_MAX, err, MP_INVALID,
                  "--stages: '%s' is not the number of a block", number);
        if (k < n) begins[k] = (int)block;
    }
    MP_ENSURE(k == n, err, MP_INVALID, "--stages names %d blocks, but there are %d stages; name the first block of each stage",
              k, n);
    return MP_OK;
}

static mp_status read_rank(const mp_workload_options *o, int n, int *rank, mp_error *err)
{
    int64_t number;
    MP_ENSURE(o->rank, err, MP_INVALID, "the mesh has %d stages; choose one with --rank 0 to %d", n, n - 1);
    MP_ENSURE(mp_count_parse(o->rank, &number) && number < n, err, MP_INVALID, "--rank: there is no rank '%s'; choose 0 to %d",
              o->rank, n - 1);
    *rank = (int)number;
    return MP_OK;
}

/* Returns the memory in bytes to which pipeline stages are balanced, as in the command `parallel`. 0: stages are balanced by
 * time alone. */
static int64_t memory_of(const mp_workload_options *o, const mp_device *device)
{
    const int64_t reserve = o->has_reserve ? o->reserve_bytes : device->reserve_bytes;
    if (o->rank_bytes) return o->rank_bytes;
    return device->memory_bytes > reserve ? device->memory_bytes - reserve : 0;
}

mp_status mp_workload_cut(const mp_workload_options *o, const mp_pipeline_shape *shape, const mp_device *device, mp_workload *s,
                          mp_error *err)
{
    MP_OWNED_BY(mp_pipeline_free) mp_pipeline *pipeline = NULL;
    int rank = 0;
    const int n = shape->n_ranks * shape->n_chunks;
    s->begins = mp_alloc((size_t)n, sizeof *s->begins);
    if (!s->begins) return MP_NO_MEMORY(err);
    MP_CHECK(read_rank(o, shape->n_ranks, &rank, err));
    if (o->stages) MP_CHECK(read_begins(o->stages, n, s->begins, err));
    const mp_pipeline_request request = {.graph = s->graph,
                                         .ranks = &s->ranks,
                                         .shape = *shape,
                                         .memory_bytes = memory_of(o, device),
                                         .begins = o->stages ? s->begins : NULL,
                                         .for_execution = s->program};
    MP_CHECK(mp_pipeline_new(&request, &pipeline, err));
    memcpy(s->begins, pipeline->begins, (size_t)n * sizeof *s->begins);
    s->n_blocks = pipeline->n_blocks;
    if (s->program) {
        MP_CHECK(mp_program_cut(s->program, pipeline, rank, &s->rank, err));
    } else {
        MP_CHECK(mp_pipeline_rank_graph(pipeline, rank, &s->rank, err));
        mp_graph_free(s->graph);
    }
    s->graph = s->rank.graph;
    return MP_OK;
}

/* Stores the stage boundaries and the stash in the `options` of the graph. held NULL: no stash is stored. */
static mp_status store_options(mp_workload *s, const char *held, mp_error *err)
{
    enum { BLOCK_DIGITS = 12 };
    MP_OWNED_BY(json_decref) json_t *options = mp_json_parse(s->graph->options);
    MP_OWNED char *text = NULL;
    const int n = s->rank.shape.n_ranks * s->rank.shape.n_chunks;
    MP_OWNED char *begins = mp_alloc((size_t)n * BLOCK_DIGITS, 1);
    if (!options || !begins) return MP_NO_MEMORY(err);
    for (int q = 0, used = 0; q < n; q++)
        used += snprintf(begins + used, (size_t)(n * BLOCK_DIGITS - used), "%s%d", q ? "," : "", s->begins[q]);
    /* the keys are deleted and added again, so that they are in the order of the option table: stages, rank, held */
    json_object_del(options, "stages");
    json_object_del(options, "held");
    json_t *rank = json_incref(json_object_get(options, "rank"));
    json_object_del(options, "rank");
    mp_json_set(&options, "stages", json_string(begins));
    mp_json_set(&options, "rank", rank);
    if (held) mp_json_set(&options, "held", json_string(held));
    text = options ? mp_json_print(options, 0) : NULL;
    if (!text) return MP_NO_MEMORY(err);
    s->graph->options = mp_pool_text(s->graph->pool, text, strlen(text));
    return s->graph->options ? MP_OK : MP_NO_MEMORY(err);
}

static mp_status held_in_keep_all(const mp_rank *rank, int64_t *bytes, mp_error *err)
{
    MP_OWNED mp_step *steps = mp_alloc(rank->graph->n_nodes, sizeof *steps);
    if (!steps) return MP_NO_MEMORY(err);
    return mp_rank_held_bytes(rank, steps, mp_keep_all(rank->graph, steps), bytes, err);
}

mp_status mp_workload_hold_all(mp_rank *rank, mp_error *err)
{
    MP_OWNED int64_t *bytes = mp_alloc((size_t)rank->shape.n_chunks, sizeof *bytes);
    if (!bytes) return MP_NO_MEMORY(err);
    MP_CHECK(held_in_keep_all(rank, bytes, err));
    return mp_rank_hold(rank, bytes, err);
}

/* Sets the stash to `bytes`, one number per chunk. `text` is the same list as a text, which is stored in the graph's
 * options. */
static mp_status hold(mp_workload *s, const int64_t *bytes, const char *text, mp_error *err)
{
    MP_CHECK(mp_rank_hold(&s->rank, bytes, err));
    MP_CHECK(store_options(s, s->rank.held < 0 ? NULL : text, err));
    if (!s->problem) return MP_OK;
    mp_problem_free(s->problem);
    json_decref(s->details->options);
    s->problem = NULL;
    s->details->options = mp_json_parse(s->graph->options);
    MP_ENSURE(s->details->options, err, MP_NOMEM, "the options");
    return mp_problem_new(s->graph, &s->problem, err);
}

mp_status mp_workload_hold(mp_workload *s, const int64_t *bytes, mp_error *err)
{
    enum { DIGITS = 21 };
    if (!s->rank.shape.n_ranks) return MP_OK;
    const size_t n = (size_t)s->rank.shape.n_chunks;
    MP_OWNED int64_t *kept = mp_alloc(n, sizeof *kept);
    MP_OWNED char *text = mp_alloc(n * DIGITS, 1);
    if (!kept || !text) return MP_NO_MEMORY(err);
    if (bytes)
        memcpy(kept, bytes, n * sizeof *kept);
    else
        MP_CHECK(held_in_keep_all(&s->rank, kept, err));
    for (size_t c = 0, used = 0; c < n; c++)
        used += (size_t)snprintf(text + used, n * DIGITS - used, "%s%lld", c ? "," : "", (long long)kept[c]);
    return hold(s, kept, text, err);
}

/* Parses --stash, such as "3GiB,2GiB": one number of bytes per chunk, or one number for all chunks. */
static mp_status read_stash(const char *text, int n, int64_t *held, mp_error *err)
{
    int k = 0;
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL, k++) {
        char amount[32];
        const char *why;
        mp_budget b;
        end = at + strcspn(at, ",");
        snprintf(amount, sizeof amount, "%.*s", (int)(end - at), at);
        MP_ENSURE(mp_budget_parse(amount, &b, &why) && b.kind == MP_BUDGET_BYTES, err, MP_INVALID,
                  "--stash: '%s' is not a number of bytes", amount);
        if (k < n) held[k] = b.bytes;
    }
    MP_ENSURE(k == 1 || k == n, err, MP_INVALID,
              "--stash names %d amounts, but the rank has %d chunk%s; give one amount for all chunks or one per chunk", k, n,
              n == 1 ? "" : "s");
    for (; k < n; k++) held[k] = held[0];
    return MP_OK;
}

mp_status mp_workload_hold_asked(const mp_workload_options *o, mp_workload *s, mp_error *err)
{
    if (!s->rank.shape.n_ranks || !o->stash) return mp_workload_hold(s, NULL, err);
    MP_OWNED int64_t *held = mp_alloc((size_t)s->rank.shape.n_chunks, sizeof *held);
    if (!held) return MP_NO_MEMORY(err);
    MP_CHECK(read_stash(o->stash, s->rank.shape.n_chunks, held, err));
    return hold(s, held, o->stash, err);
}

mp_status mp_workload_check_held(const mp_workload *s, const mp_step *steps, size_t n, mp_error *err)
{
    return s->rank.shape.n_ranks ? mp_rank_check(&s->rank, steps, n, err) : MP_OK;
}
