/* training.c - builds the training graph from model, options and target. First marks the trained tensors and the operators
 * that the loss needs. Then builds nodes in keep-all's order: forward nodes in model order, backward nodes in reverse order,
 * updates at the end. If updates are fused into the next forward pass, they come first. */
#include "estimator/training/training.h"

#include <fnmatch.h>
#include <string.h>

#include "estimator/base/names.h"
#include "estimator/model/order.h"
#include "estimator/training/builder.h"

void mp_bindings_free(mp_bindings *bindings)
{
    if (!bindings) return;
    mp_pool_free(bindings->pool);
    mp_free(bindings->nodes);
    mp_free(bindings);
}

int mp_optimizer_moments(mp_optimizer optimizer)
{
    static const int moments[MP_N_OPTIMIZERS] = {
        [MP_OPTIMIZER_ADAMW] = 2, [MP_OPTIMIZER_ADAM] = 2, [MP_OPTIMIZER_MOMENTUM] = 1};
    return moments[optimizer];
}

int64_t mp_optimizer_state_bytes(mp_optimizer optimizer, int64_t elements)
{
    enum { SMALLEST = 4096, BLOCK = 256 }; /* thresholds of bitsandbytes 0.50: min_8bit_size and blocksize, in elements */
    const int64_t largest = INT64_MAX / 16;
    int64_t bytes = 4 * mp_optimizer_moments(optimizer);
    if (elements > largest) return -1;
    if (optimizer != MP_OPTIMIZER_ADAMW_8BIT) return bytes * elements;
    if (elements < SMALLEST) return 8 * elements;
    return 2 * (elements + 4 * ((elements + BLOCK - 1) / BLOCK));
}

/* ---- updates: one update node per trained parameter. The node reads the gradient, and changes the parameter and the optimizer
 * state. The state is fp32: two moments for Adam and AdamW, one for momentum, none for SGD. For 16-bit parameters the state
 * also contains the fp32 master copy ---- */

static bool is_trained(const mp_builder *b, int tensor)
{
    return b->model->tensors[tensor].role == MP_ROLE_PARAMETER && b->has_gradient[tensor];
}

static const char *name_after(const mp_builder *b, const char *format, const char *name)
{
    const char *text = mp_pool_format(b->graph->pool, "%s%s", format, name);
    return text ? text : "";
}

/* Adds the gradient storages of the trained parameters, before anything refers to them. */
static mp_status build_parameter_gradients(mp_builder *b)
{
    for (int t = 0; t < (int)b->model->n_tensors; t++) {
        if (!is_trained(b, t)) continue;
        MP_CHECK(mp_builder_storage(b, b->model->tensors[t].name, mp_builder_bytes(b, t), MP_KIND_PARAMETER, &b->storage[t]));
        const char *name = name_after(b, "gradient of ", b->model->tensors[t].name);
        MP_CHECK(mp_builder_storage(b, name, mp_builder_bytes(b, t), MP_KIND_GRADIENT, &b->gradient[t].storage));
        mp_storage *gradient = &b->graph->storages[b->gradient[t].storage];
        bool updated = b->options->optimizer != MP_OPTIMIZER_NONE, once = b->options->accumulate <= 1;
        gradient->carried = updated && once && b->options->fuse == MP_FUSE_FORWARD;
        gradient->persistent = !updated || !once;
        gradient->is_part = b->model->tensors[t].is_summed;
        gradient->is_spread = b->model->tensors[t].is_spread;
        gradient->is_lowered = b->graph->storages[b->storage[t]].is_lowered = mp_builder_is_lowered(b, t);
    }
    return MP_OK;
}

/* Builds the node for gradient clipping. It reads all gradients and writes the factor that limits their global norm. Every
 * update reads this factor, so it waits for the node. */
static mp_status build_clip(mp_builder *b)
{
    MP_ENSURE(b->options->fuse != MP_FUSE_BACKWARD, b->err, MP_INVALID,
              "clipping by the global norm needs every gradient before the first update, so updates cannot be fused into "
              "backward; use --fuse forward, which clips exactly, or --fuse none");
    mp_builder_task(b, MP_TASK_CLIP, -1);
    for (int t = 0; t < (int)b->model->n_tensors; t++)
        if (is_trained(b, t)) MP_CHECK(mp_builder_put(b, &b->reads, b->gradient[t].storage));
    MP_CHECK(mp_builder_storage(b, "clipping factor", (int64_t)sizeof(float), MP_KIND_SAVED, &b->bindings->clip));
    MP_CHECK(mp_builder_put(b, &b->writes, b->bindings->clip));
    b->binding.state = b->bindings->clip;
    return mp_builder_node(b, "global norm", "ClipByGlobalNorm", MP_PHASE_UPDATE, NULL, -1, 0, 0, NULL);
}

static mp_status build_updates(mp_builder *b)
{
    if (b->options->optimizer == MP_OPTIMIZER_NONE) return MP_OK;
    if (b->options->clip_norm > 0) MP_CHECK(build_clip(b));
    for (int t = 0; t < (int)b->model->n_tensors; t++) {
        if (!is_trained(b, t)) continue;
        const mp_tensor *parameter = &b->model->tensors[t];
        const int64_t master = mp_builder_bytes(b, t) < mp_tensor_bytes(parameter) && !mp_builder_is_lowered(b, t) ? 1 : 0;
        const int64_t elements = mp_stored_elements(parameter),
                      kept = mp_optimizer_state_bytes(b->options->optimizer, elements);
        int64_t bytes, state = -1;
        mp_builder_task(b, MP_TASK_UPDATE, -1);
        MP_ENSURE(kept >= 0 && mp_multiply(elements, 4 * master, &bytes) && mp_add(bytes, kept, &bytes), b->err, MP_INVALID,
                  "the optimizer state of '%s' has more bytes than can be counted", parameter->name);
        MP_CHECK(mp_builder_put(b, &b->reads, b->storage[t]));
        MP_CHECK(mp_builder_put(b, &b->reads, b->gradient[t].storage));
        MP_CHECK(mp_builder_put(b, &b->writes, b->storage[t]));
        if (bytes) {
            int index;
            MP_CHECK(mp_builder_storage(b, name_after(b, "optimizer state of ", parameter->name), bytes,
                                        MP_KIND_OPTIMIZER_STATE, &index));
            state = index;
        }
        MP_CHECK(mp_builder_put(b, &b->reads, (int)state));
        MP_CHECK(mp_builder_put(b, &b->reads, b->bindings->clip));
        MP_CHECK(mp_builder_put(b, &b->writes, (int)state));
        b->binding.parameter = t;
        b->binding.source = b->gradient[t].storage;
        b->binding.target = b->storage[t];
        b->binding.state = (int)state;
        MP_CHECK(mp_builder_node(b, name_after(b, "update of ", parameter->name), b->optimizer_name, MP_PHASE_UPDATE, NULL, -1,
                                 0, 0, NULL));
    }
    return MP_OK;
}

static const double tick_seconds = 1e-9; /* length of a tick in graphs built from a model: 1 ns */

MP_NAMED(loss, "auto", "cross-entropy", "mse", "l1", "smooth-l1", "huber", "bce", "kl-div", "cosine", "none")
MP_NAMED(optimizer, "adamw", "adam", "sgd", "momentum", "none", "adamw8bit")
MP_NAMED(rules, "executor", "pytorch")

/* Marks the operators on which the loss depends. If there is no loss, marks the operators on which an output depends. */
static void mark_relevant(mp_builder *b, bool *demanded)
{
    const mp_model *m = b->model;
    if (b->loss >= 0) demanded[b->loss] = true;
    for (size_t k = 0; b->loss < 0 && k < m->n_outputs; k++) demanded[m->outputs[k]] = true;
    for (size_t k = m->n_operators; k-- > 0;) {
        const mp_operator *op = &m->operators[k];
        for (int o = 0; !op->removed && o < op->n_out; o++) b->relevant[k] |= op->out[o] >= 0 && demanded[op->out[o]];
        for (int i = 0; b->relevant[k] && i < op->n_in; i++)
            if (op->in[i] >= 0) demanded[op->in[i]] = true;
    }
}

static mp_status freeze(mp_builder *b, bool *trained)
{
    for (size_t p = 0; p < b->options->n_freeze; p++) {
        bool any = false;
        for (size_t t = 0; t < b->model->n_tensors; t++)
            if (b->model->tensors[t].role == MP_ROLE_PARAMETER &&
                !fnmatch(b->options->freeze[p], b->model->tensors[t].name, 0)) {
                trained[t] = false;
                any = true;
            }
        MP_ENSURE(any, b->err, MP_INVALID, "no parameter matches the freeze pattern '%s'", b->options->freeze[p]);
    }
    return MP_OK;
}

/* Marks tensors that need a gradient: they depend on a trained parameter, and the loss depends on them. */
static mp_status mark_gradients(mp_builder *b, bool *reached)
{
    const mp_model *m = b->model;
    bool *trained = b->has_gradient, any = false;
    for (size_t t = 0; t < m->n_tensors; t++)
        trained[t] =
            m->tensors[t].role == MP_ROLE_PARAMETER && !m->tensors[t].is_frozen && mp_dtype_is_float(m->tensors[t].dtype);
    MP_CHECK(freeze(b, trained));
    for (size_t k = 0; k < m->n_operators; k++) {
        const mp_operator *op = &m->operators[k];
        bool depends = false;
        if (!b->relevant[k] || op->op->gradient == MP_GRADIENT_NONE) continue;
        for (int i = 0; i < op->n_in; i++) depends |= op->in[i] >= 0 && trained[op->in[i]];
        for (int o = 0; depends && o < op->n_out; o++)
            if (op->out[o] >= 0) trained[op->out[o]] = mp_dtype_is_float(m->tensors[op->out[o]].dtype);
    }
    if (b->loss >= 0) reached[b->loss] = true;
    for (size_t k = 0; b->loss < 0 && k < m->n_outputs; k++) reached[m->outputs[k]] = true;
    for (size_t k = m->n_operators; k-- > 0;) {
        const mp_operator *op = &m->operators[k];
        bool reaches = false, depends = false;
        for (int o = 0; b->relevant[k] && o < op->n_out; o++)
            reaches |= op->out[o] >= 0 && reached[op->out[o]] && trained[op->out[o]];
        if (!reaches || op->op->gradient == MP_GRADIENT_NONE) continue;
        for (int o = 0; o < op->n_out; o++)
            MP_ENSURE(op->out[o] < 0 || !trained[op->out[o]] || mp_tensor_elements(&m->tensors[op->out[o]]), b->err, MP_PARSE,
                      "'%s', the output of %s ('%s'), has no elements, but the gradient of a parameter depends on it",
                      m->tensors[op->out[o]].name, op->kind, op->name);
        for (int i = 0; i < op->n_in; i++) {
            if (op->in[i] < 0) continue;
            reached[op->in[i]] = true;
            depends |= trained[op->in[i]];
            MP_ENSURE(!trained[op->in[i]] || !(mp_builder_needs(b, op, i) & MP_UNBUILT), b->err, MP_UNSUPPORTED,
                      "operator %s ('%s') has no gradient for '%s', but a parameter needs it; freeze the parameters before the "
                      "operator",
                      op->kind, op->name, m->tensors[op->in[i]].name);
        }
        MP_ENSURE(!depends || op->op->gradient != MP_GRADIENT_REFUSED, b->err, MP_UNSUPPORTED,
                  "operator %s ('%s') has no gradient, but a parameter needs it; freeze the parameters before the operator",
                  op->kind, op->name);
    }
    for (size_t t = 0; t < m->n_tensors; t++) {
        trained[t] = trained[t] && reached[t];
        any |= trained[t] && m->tensors[t].role == MP_ROLE_PARAMETER;
    }
    MP_ENSURE(any, b->err, MP_INVALID, "there is nothing to train: no unfrozen parameter has a gradient");
    return MP_OK;
}

static mp_status mark(mp_builder *b)
{
    MP_OWNED bool *scratch = NULL;
    MP_ENSURE(scratch = mp_alloc(2 * b->model->n_tensors, sizeof *scratch), b->err, MP_NOMEM, "out of memory");
    mark_relevant(b, scratch);
    return mark_gradients(b, scratch + b->model->n_tensors);
}

/* Writes, for each storage, the names of the tensors that it stores. */
static mp_status list_tensors(mp_builder *b)
{
    mp_graph *g = b->graph;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t t = 0; t < b->model->n_tensors; t++) {
            if (b->storage[t] < 0) continue;
            mp_storage *s = &g->storages[b->storage[t]];
            if (pass)
                s->tensors[s->n_tensors] = mp_pool_text(g->pool, b->model->tensors[t].name, strlen(b->model->tensors[t].name));
            MP_ENSURE(!pass || s->tensors[s->n_tensors], b->err, MP_NOMEM, "out of memory");
            s->n_tensors++;
        }
        for (size_t s = 0; !pass && s < g->n_storages; s++) {
            g->storages[s].tensors = mp_pool_alloc(g->pool, g->storages[s].n_tensors, sizeof(char *));
            MP_ENSURE(g->storages[s].tensors, b->err, MP_NOMEM, "out of memory");
            g->storages[s].n_tensors = 0;
        }
    }
    return MP_OK;
}

/* Allocates the bindings and sets them to their initial state. */
static mp_status prepare_bindings(mp_builder *b)
{
    size_t n = b->model->n_tensors, m = b->model->n_operators;
    mp_bindings *bound;
    MP_ENSURE(bound = b->bindings = mp_alloc(1, sizeof *bound), b->err, MP_NOMEM, "out of memory");
    MP_ENSURE(bound->pool = mp_pool_new(), b->err, MP_NOMEM, "out of memory");
    bound->dtype = mp_pool_alloc(bound->pool, n, sizeof *bound->dtype);
    bound->storage = mp_pool_alloc(bound->pool, n, sizeof *bound->storage);
    bound->gradient = mp_pool_alloc(bound->pool, n, sizeof *bound->gradient);
    bound->offset = mp_pool_alloc(bound->pool, n, sizeof *bound->offset);
    bound->gradient_offset = mp_pool_alloc(bound->pool, n, sizeof *bound->gradient_offset);
    bound->has_gradient = mp_pool_alloc(bound->pool, n, sizeof *bound->has_gradient);
    bound->extras = mp_pool_alloc(bound->pool, m, sizeof *bound->extras);
    MP_ENSURE(!mp_pool_failed(bound->pool), b->err, MP_NOMEM, "out of memory");
    bound->loss = b->loss;
    bound->clip = -1;
    for (size_t t = 0; t < n; t++) bound->dtype[t] = mp_builder_dtype(b, (int)t);
    b->storage = bound->storage;
    b->extras = bound->extras;
    b->has_gradient = bound->has_gradient;
    return MP_OK;
}

static mp_status prepare(mp_builder *b)
{
    size_t n = b->model->n_tensors, m = b->model->n_operators;
    MP_CHECK(prepare_bindings(b));
    const char *json = b->options->options_json ? b->options->options_json : "{}";
    MP_CHECK(mp_graph_new(b->model->name, &b->graph, b->err));
    b->graph->options = mp_pool_text(b->graph->pool, json, strlen(json));
    b->graph->target = mp_pool_text(b->graph->pool, b->target->name, strlen(b->target->name));
    b->graph->alignment = b->target->alignment;
    b->graph->tick_seconds = tick_seconds;
    b->graph->fuse = b->options->fuse;
    b->pool = mp_pool_new();
    b->relevant = mp_pool_alloc(b->pool, m, sizeof *b->relevant);
    b->forward = mp_pool_alloc(b->pool, m, sizeof *b->forward);
    b->copies = mp_pool_alloc(b->pool, m, sizeof *b->copies);
    b->key = mp_pool_alloc(b->pool, n, sizeof *b->key);
    b->gradient = mp_pool_alloc(b->pool, n, sizeof *b->gradient);
    b->rows = mp_pool_alloc(b->pool, n, sizeof *b->rows);
    b->has_rows_gradient = mp_pool_alloc(b->pool, n, sizeof *b->has_rows_gradient);
    b->strides = mp_pool_alloc(b->pool, n, sizeof *b->strides);
    MP_ENSURE(!mp_pool_failed(b->graph->pool) && !mp_pool_failed(b->pool), b->err, MP_NOMEM, "out of memory");
    MP_CHECK(mp_model_consumers(b->model, &b->consumers, b->err));
    for (size_t t = 0; t < n; t++) {
        b->storage[t] = b->gradient[t].storage = b->rows[t] = -1;
        b->key[t] = (int)t;
    }
    memset(b->forward, -1, m * sizeof *b->forward);
    memset(b->extras, -1, m * sizeof *b->extras);
    memset(b->copies, -1, m * sizeof *b->copies);
    return MP_OK;
}

/* Marks the storages of the model's outputs that forward computes. */
static void mark_outputs(mp_builder *b)
{
    for (size_t k = 0; k < b->model->n_outputs; k++) {
        const int s = b->storage[b->model->outputs[k]];
        if (s >= 0 && !mp_storage_is_static(&b->graph->storages[s])) b->graph->storages[s].is_output = true;
    }
}

mp_status mp_training_graph(const mp_model *model, const mp_training_options *options, int loss, const mp_target *target,
                            mp_graph **out, mp_error *err)
{
    MP_OWNED_BY(mp_bindings_free) mp_bindings *bindings = NULL;
    return mp_training_graph_bound(model, options, loss, target, out, &bindings, err);
}

static void clear(mp_builder *b)
{
    mp_consumers_free(&b->consumers);
    mp_pool_free(b->pool);
    mp_free(b->reads.items);
    mp_free(b->writes.items);
    mp_free(b->adds.items);
    mp_free(b->pairs.items);
    mp_free(b->used);
    mp_graph_free(b->graph);
    mp_bindings_free(b->bindings);
}

mp_status mp_training_graph_bound(const mp_model *model, const mp_training_options *options, int loss, const mp_target *target,
                                  mp_graph **out, mp_bindings **bindings, mp_error *err)
{
    MP_CLEARED_BY(clear)
    mp_builder b = {.model = model,
                    .options = options,
                    .target = target,
                    .optimizer_name = mp_optimizer_name(options->optimizer),
                    .loss = loss,
                    .err = err};
    MP_CHECK(prepare(&b));
    MP_CHECK(mark(&b));
    MP_CHECK(build_parameter_gradients(&b));
    if (options->fuse == MP_FUSE_FORWARD) MP_CHECK(build_updates(&b));
    mp_builder_count_contributions(&b);
    MP_CHECK(mp_build_forward(&b));
    MP_CHECK(mp_build_backward(&b));
    if (options->fuse != MP_FUSE_FORWARD) MP_CHECK(build_updates(&b));
    MP_CHECK(list_tensors(&b));
    mark_outputs(&b);
    MP_CHECK(mp_graph_finish(b.graph, err));
    for (size_t t = 0; t < model->n_tensors; t++) {
        b.bindings->gradient[t] = b.gradient[b.key[t]].storage;
        b.bindings->gradient_offset[t] += b.gradient[b.key[t]].offset;
    }
    *out = b.graph;
    *bindings = b.bindings;
    b.graph = NULL;
    b.bindings = NULL;
    return MP_OK;
}
