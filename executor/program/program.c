/* program.c - builds a training graph for a backend and prepares its calls. The graph builder asks a target for the cost of
 * each node. The target of this file also prepares the node's kernel call. */
#include "executor/program/program.h"

#include <stdio.h>
#include <string.h>

#include "estimator/base/list.h"
#include "estimator/model/refused_kinds.h"
#include "executor/program/node_list.h"
#include "executor/program/program_split.h"
#include "executor/program/stage.h"

/* Collects all operators that the backend cannot run, so that one message can list them after the graph is complete. */
typedef struct builder {
    mp_program *program;
    mp_refused_kinds missing;
    bool *is_missing; /* per operator: true if the operator is already counted as missing */
    mp_error first;   /* the first reason that a kernel gave for an unsupported operator */
    mp_counted_device counted;
} builder;

static void note_missing(builder *b, int op)
{
    if (!b->is_missing[op]) mp_refused_kinds_add(&b->missing, &b->program->model->operators[op]);
    b->is_missing[op] = true;
}

mp_status mp_program_array(const mp_program *p, int tensor, mp_array *out, mp_error *err)
{
    return mp_array_of(&p->model->tensors[tensor], p->bindings->dtype[tensor], out, err);
}

static void put_value(void *to, mp_dtype dtype, const mp_value *v, int64_t k)
{
    double real = v->is_real ? v->f[k] : (double)v->i[k];
    int64_t whole = v->is_real ? (int64_t)v->f[k] : v->i[k];
    uint32_t word;
    float single = (float)real;
    switch (dtype) {
    case MP_DTYPE_FLOAT:
        ((float *)to)[k] = single;
        break;
    case MP_DTYPE_DOUBLE:
        ((double *)to)[k] = real;
        break;
    case MP_DTYPE_BFLOAT16:
        memcpy(&word, &single, sizeof word);
        ((uint16_t *)to)[k] = (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
        break;
    case MP_DTYPE_INT64:
    case MP_DTYPE_UINT64:
        ((int64_t *)to)[k] = whole;
        break;
    case MP_DTYPE_INT32:
    case MP_DTYPE_UINT32:
        ((int32_t *)to)[k] = (int32_t)whole;
        break;
    case MP_DTYPE_INT16:
    case MP_DTYPE_UINT16:
        ((int16_t *)to)[k] = (int16_t)whole;
        break;
    default:
        ((int8_t *)to)[k] = (int8_t)whole;
    }
}

/* Converts a constant of the model to the type that kernels read, at first use. *out is NULL if the tensor is not a constant.
 */
static mp_status constant_of(mp_program *p, int tensor, mp_dtype dtype, void **out, mp_error *err)
{
    const mp_tensor *t = &p->model->tensors[tensor];
    bool known = t->value && p->bindings->storage[tensor] < 0 && t->role != MP_ROLE_PARAMETER && mp_dtype_bits(dtype) >= 8;
    if (known && !p->constant_of[tensor]) {
        void *bytes = mp_pool_alloc(p->pool, (size_t)t->value->n + 1, (size_t)mp_dtype_bits(dtype) / 8);
        MP_ENSURE(bytes, err, MP_NOMEM, "out of memory");
        for (int64_t k = 0; k < t->value->n; k++) put_value(bytes, dtype, t->value, k);
        p->constant_of[tensor] = (int)p->n_constants;
        p->constants[p->n_constants++] = (mp_constant){bytes, t->value->n * (mp_dtype_bits(dtype) / 8)};
    }
    *out = known ? (void *)p->constants[p->constant_of[tensor]].bytes : NULL;
    return MP_OK;
}

static mp_status describe(mp_program *p, int tensor, mp_array *out, mp_error *err)
{
    if (tensor < 0) return MP_OK;
    MP_CHECK(mp_program_array(p, tensor, out, err));
    return constant_of(p, tensor, out->dtype, &out->data, err);
}

bool mp_program_keeps_gradients(const mp_program *p)
{
    return p->options.accumulate > 1 && !p->options.sums_each_pass;
}

/* Describes the operands of an operator's node: types, shapes and layouts, without addresses. */
static mp_status describe_node(mp_program *p, const mp_binding *b, mp_operands *x, mp_error *err)
{
    const mp_operator *op = &p->model->operators[b->op];
    const mp_bindings *bound = p->bindings;
    mp_extra extras[MP_EXTRAS_MAX];
    *x = (mp_operands){.model = p->model,
                       .op = op,
                       .op_index = op->number ? op->number - 1 : b->op,
                       .mode = MP_MODE_TRAIN,
                       .is_backward = b->task == MP_TASK_BACKWARD,
                       .from = b->from,
                       .to = b->to,
                       .adds = b->adds,
                       .n_in = op->n_in,
                       .n_out = op->n_out};
    x->in = mp_pool_alloc(p->pool, 2 * (size_t)(op->n_in + op->n_out) + 1, sizeof *x->in);
    MP_ENSURE(x->in, err, MP_NOMEM, "out of memory");
    x->out = x->in + op->n_in;
    for (int i = 0; i < op->n_in; i++) MP_CHECK(describe(p, op->in[i], &x->in[i], err));
    for (int o = 0; o < op->n_out; o++)
        if (op->out[o] >= 0 && bound->storage[op->out[o]] >= 0) MP_CHECK(describe(p, op->out[o], &x->out[o], err));
    int n = op->op->extras ? op->op->extras(p->model, op, MP_RULES_EXECUTOR, extras) : 0;
    for (int e = 0; e < n; e++) {
        int64_t elements = extras[e].bytes / (mp_dtype_bits(extras[e].dtype) / 8);
        if (bound->extras[b->op][e] >= 0) x->extra[e] = mp_array_plain(extras[e].dtype, 1, &elements);
    }
    if (!x->is_backward) return MP_OK;
    x->d_in = x->out + op->n_out;
    x->d_out = x->d_in + op->n_in;
    for (int i = b->from; i < b->to && i < 64; i++)
        if (b->targets >> i & 1) MP_CHECK(mp_program_array(p, op->in[i], &x->d_in[i], err));
    for (int o = 0; o < op->n_out; o++)
        if (op->out[o] >= 0 && bound->has_gradient[op->out[o]]) MP_CHECK(mp_program_array(p, op->out[o], &x->d_out[o], err));
    /* with several micro-batches, all but the first add to the parameters' gradients */
    for (int i = b->from; mp_program_keeps_gradients(p) && i < b->to && i < 64; i++)
        if ((b->targets >> i & 1) && p->model->tensors[op->in[i]].role == MP_ROLE_PARAMETER) x->adds |= UINT64_C(1) << i;
    return MP_OK;
}

static mp_status prepare_operator(builder *b, const mp_binding *binding, mp_program_node *node, mp_error *err)
{
    mp_status st = MP_OK;
    mp_error refusal = {0};
    mp_program *p = b->program;
    const mp_operator *op = &p->model->operators[binding->op];
    const mp_kernel *kernel = p->backend->kernel(p->backend, op);
    MP_CHECK(describe_node(p, binding, &node->operands, err));
    bool too_many = binding->task == MP_TASK_BACKWARD && binding->to > 64;
    if (!kernel || (node->operands.is_backward && !kernel->backward) || too_many) {
        note_missing(b, binding->op);
        return st;
    }
    st = mp_call_prepare(p->backend, kernel, &node->operands, &node->call, &refusal);
    if (st == MP_UNSUPPORTED) {
        if (b->first.code == MP_OK) b->first = refusal;
        st = MP_OK;
    } else if (st != MP_OK) {
        MP_FAIL(err, st, "%s", refusal.message);
    }
    return st;
}

/* Implements mp_target.cost: returns the cost of a node, and prepares the node's call. */
static mp_status cost(const mp_target *target, const mp_work *work, mp_cost *out, mp_error *err)
{
    builder *b = target->details;
    mp_program *p = b->program;
    const mp_binding *binding = work->binding;
    p->bindings = (mp_bindings *)work->bindings;
    MP_ENSURE(mp_grow(&p->nodes, &p->capacity, p->n_nodes + 1, sizeof *p->nodes), err, MP_NOMEM, "out of memory");
    mp_program_node *node = &p->nodes[p->n_nodes++];
    *node = (mp_program_node){0};
    *out = (mp_cost){.seconds = mp_counted_seconds(&b->counted, work)};
    if (binding->op >= 0) MP_CHECK(prepare_operator(b, binding, node, err));
    out->workspace_bytes = node->call.workspace_bytes;
    if (binding->task == MP_TASK_CLIP) {
        int64_t largest = 0;
        for (size_t t = 0; t < p->model->n_tensors; t++)
            if (p->bindings->has_gradient[t] && p->model->tensors[t].role == MP_ROLE_PARAMETER &&
                mp_stored_elements(&p->model->tensors[t]) > largest)
                largest = mp_stored_elements(&p->model->tensors[t]);
        out->workspace_bytes = p->backend->norm_workspace_bytes(p->backend, largest);
    }
    MP_ENSURE(mp_round_up(out->workspace_bytes, p->backend->alignment, &out->workspace_bytes), err, MP_INVALID,
              "a node needs too much workspace");
    return MP_OK;
}

/* True if any alternative of the node reads, writes or adds to the storage. */
static bool touches(const mp_node *node, int storage)
{
    for (size_t f = 0; f < node->n_alternatives; f++) {
        const mp_alternative *alternative = &node->alternatives[f];
        if (mp_list_has(alternative->reads, alternative->n_reads, storage) ||
            mp_list_has(alternative->writes, alternative->n_writes, storage) ||
            mp_list_has(alternative->adds, alternative->n_adds, storage))
            return true;
    }
    return false;
}

static void put_slot(mp_program_node *node, const mp_node *of, mp_array *array, int storage, int64_t offset)
{
    if (array->dtype != MP_DTYPE_UNDEFINED && storage >= 0 && touches(of, storage))
        node->slots[node->n_slots++] = (mp_slot){array, storage, offset, 0};
}

static mp_slot constant_slot(mp_array *array, int k)
{
    return (mp_slot){array, MP_SLOT_CONSTANT(k), 0, 0};
}

/* Finds the storage of each operand of a node. */
static mp_status find_slots(mp_program *p, int k, mp_error *err)
{
    const mp_binding *b = &p->bindings->nodes[k];
    const mp_node *of = &p->graph->nodes[k];
    mp_program_node *node = &p->nodes[k];
    mp_operands *x = &node->operands;
    const int *storage = p->bindings->storage, *gradient = p->bindings->gradient;
    const int64_t *offset = p->bindings->offset, *gradient_offset = p->bindings->gradient_offset;
    if (b->op < 0) return MP_OK;
    const mp_operator *op = x->op;
    node->slots = mp_pool_alloc(p->pool, 2 * (size_t)(op->n_in + op->n_out) + MP_EXTRAS_MAX, sizeof *node->slots);
    MP_ENSURE(node->slots, err, MP_NOMEM, "out of memory");
    for (int i = 0; i < op->n_in; i++) {
        if (op->in[i] < 0) continue;
        put_slot(node, of, &x->in[i], storage[op->in[i]], offset[op->in[i]]);
        if (p->constant_of[op->in[i]]) node->slots[node->n_slots++] = constant_slot(&x->in[i], p->constant_of[op->in[i]]);
    }
    for (int o = 0; o < op->n_out; o++)
        if (op->out[o] >= 0) put_slot(node, of, &x->out[o], storage[op->out[o]], offset[op->out[o]]);
    for (int e = 0; e < MP_EXTRAS_MAX; e++) put_slot(node, of, &x->extra[e], p->bindings->extras[b->op][e], 0);
    if (!x->is_backward) return MP_OK;
    for (int i = b->from; i < b->to; i++)
        if (op->in[i] >= 0) put_slot(node, of, &x->d_in[i], gradient[op->in[i]], gradient_offset[op->in[i]]);
    for (int o = 0; o < op->n_out; o++) {
        if (op->out[o] < 0 || !x->d_out[o].dtype) continue;
        if (gradient[op->out[o]] >= 0)
            put_slot(node, of, &x->d_out[o], gradient[op->out[o]], gradient_offset[op->out[o]]);
        else if (p->bindings->dtype[op->out[o]] == MP_DTYPE_FLOAT)
            node->slots[node->n_slots++] = constant_slot(&x->d_out[o], 0);
    }
    return MP_OK;
}

static mp_status judge(const builder *b, mp_error *err)
{
    char text[MP_REFUSED_TEXT];
    MP_ENSURE(!b->missing.n_kinds, err, MP_UNSUPPORTED, "the %s backend cannot run %s; the first one is node '%.120s'",
              b->program->backend->name, mp_refused_kinds_text(&b->missing, text), b->missing.kinds[0].node);
    MP_ENSURE(b->first.code == MP_OK, err, b->first.code, "%s", b->first.message);
    return MP_OK;
}

mp_status mp_program_build(const mp_backend *backend, mp_model *model, const mp_training_options *options, int loss,
                           mp_program **out, mp_error *err)
{
    MP_OWNED_BY(mp_program_free) mp_program *p = mp_alloc(1, sizeof *p);
    builder b = {.program = p, .counted = {.device = backend->device(backend)}};
    MP_ENSURE(p, err, MP_NOMEM, "out of memory");
    MP_ENSURE(options->rules == MP_RULES_EXECUTOR, err, MP_INVALID,
              "memplan's own kernels keep other tensors than PyTorch, so --rules pytorch cannot be used with --device %s",
              backend->name);
    MP_ENSURE(options->optimizer != MP_OPTIMIZER_ADAMW_8BIT, err, MP_UNSUPPORTED,
              "no backend runs the optimizer adamw8bit; plan it for a profile, such as --device a100");
    MP_ENSURE(!options->amp, err, MP_UNSUPPORTED,
              "no backend runs mixed precision like torch.autocast; plan it for a profile, such as --device a100");
    *p = (mp_program){.backend = backend, .model = model, .options = *options, .mesh = mp_mesh_of_one()};
    MP_ENSURE(p->pool = mp_pool_new(), err, MP_NOMEM, "out of memory");
    MP_CHECK(backend->adapt(backend, model, options->dtype, err));
    p->constant_of = mp_pool_alloc(p->pool, model->n_tensors, sizeof *p->constant_of);
    p->constants = mp_pool_alloc(p->pool, model->n_tensors + 2, sizeof *p->constants);
    b.is_missing = mp_pool_alloc(p->pool, model->n_operators + 1, sizeof *b.is_missing);
    MP_ENSURE(p->constant_of && p->constants && b.is_missing, err, MP_NOMEM, "out of memory");
    p->one_value = options->accumulate > 1 ? 1.0f / (float)options->accumulate : 1.0f;
    p->constants[p->n_constants++] = (mp_constant){&p->one_value, sizeof p->one_value};
    if (backend->threads(backend))
        snprintf(p->target_name, sizeof p->target_name, "%s, %d threads", backend->name, backend->threads(backend));
    else
        snprintf(p->target_name, sizeof p->target_name, "%s", backend->name);
    mp_target target = {.name = p->target_name,
                        .alignment = backend->alignment,
                        .memory_bytes = backend->device(backend)->memory_bytes,
                        .alternatives = true,
                        .cost = cost,
                        .details = &b};
    p->bindings = NULL;
    const mp_status st = mp_training_graph_bound(model, options, loss, &target, &p->graph, &p->bindings, err);
    if (st != MP_OK) p->bindings = NULL; /* the bindings are not released here, because they belong to the graph builder */
    MP_CHECK(st);
    MP_CHECK(judge(&b, err));
    for (size_t k = 0; k < p->n_nodes; k++) MP_CHECK(find_slots(p, (int)k, err));
    MP_CHECK(mp_program_split(p, err));
    p->spending = b.counted.spending;
    *out = p;
    p = NULL;
    return MP_OK;
}

bool mp_program_has(const mp_program *p, int tensor)
{
    return p->bindings->storage[tensor] >= 0;
}

bool mp_program_lacks(const mp_program *p, int tensor)
{
    return p->stage && p->stage->is_elsewhere[tensor];
}

const mp_graph *mp_program_graph(const mp_program *program)
{
    return program->graph;
}

void mp_program_free(mp_program *p)
{
    if (!p) return;
    for (size_t k = 0; k < p->n_nodes; k++) mp_node_list_release(&p->nodes[k]);
    mp_free(p->nodes);
    mp_graph_free(p->graph);
    mp_bindings_free(p->bindings);
    mp_pool_free(p->pool);
    mp_free(p);
}

static bool is_of(const mp_provider_group *group, const mp_call *call)
{
    return !strcmp(group->provider, call->provider) && !strcmp(group->reason, call->reason);
}

size_t mp_program_providers(const mp_program *p, const char *kind, mp_provider_group groups[MP_PROVIDER_GROUPS])
{
    size_t n = 0;
    for (size_t k = 0; k < p->n_nodes; k++) {
        const mp_operands *x = &p->nodes[k].operands;
        const mp_call *call = &p->nodes[k].call;
        size_t g = 0;
        if (!x->op || x->is_backward || !call->provider || strcmp(x->op->kind, kind) != 0) continue;
        while (g < n && !is_of(&groups[g], call)) g++;
        if (g == MP_PROVIDER_GROUPS) g--;
        if (g == n) groups[n++] = (mp_provider_group){call->provider, call->reason, 0};
        groups[g].n_operators++;
    }
    return n;
}
