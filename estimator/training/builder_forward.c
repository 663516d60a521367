/* builder_forward.c - builds the storages of tensors, the forward nodes and the loss nodes. A view shares the storage of its
 * input. */
#include "estimator/training/builder.h"

#include "estimator/training/autocast.h"
#include "estimator/training/builder.h"

static mp_kind kind_of_role(mp_role role)
{
    static const mp_kind kinds[] = {[MP_ROLE_ACTIVATION] = MP_KIND_ACTIVATION,
                                    [MP_ROLE_DATA] = MP_KIND_INPUT,
                                    [MP_ROLE_PARAMETER] = MP_KIND_PARAMETER,
                                    [MP_ROLE_BUFFER] = MP_KIND_BUFFER,
                                    [MP_ROLE_CONSTANT] = MP_KIND_CONSTANT};
    return kinds[role];
}

int mp_builder_operand(const mp_builder *b, int op, int k)
{
    const mp_operator *o = &b->model->operators[op];
    if (k >= o->n_in || o->in[k] < 0) return -1;
    return k < 2 && b->copies[op][k] >= 0 ? b->copies[op][k] : b->storage[o->in[k]];
}

/* Creates the storage of a tensor that no operator computes, when the first operator reads it. */
static mp_status give_storage(mp_builder *b, int tensor)
{
    const mp_tensor *t = &b->model->tensors[tensor];
    if (b->storage[tensor] >= 0 || t->producer >= 0) return MP_OK;
    if (t->value && mp_tensor_elements(t) <= MP_ARGUMENT_ELEMENTS && t->role != MP_ROLE_PARAMETER) return MP_OK;
    MP_CHECK(mp_builder_storage(b, t->name, mp_builder_bytes(b, tensor), kind_of_role(t->role), &b->storage[tensor]));
    b->graph->storages[b->storage[tensor]].is_spread = t->is_spread;
    b->graph->storages[b->storage[tensor]].is_lowered = mp_builder_is_lowered(b, tensor);
    return MP_OK;
}

/* Adds storages for the saved outputs (tensors saved only for backward) that a gradient of this operator reads. */
static mp_status build_extras(mp_builder *b, int k, mp_extra extras[MP_EXTRAS_MAX])
{
    const mp_operator *op = &b->model->operators[k];
    uint32_t needs = 0;
    if (!op->op->extras) return MP_OK;
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i] >= 0 && b->has_gradient[op->in[i]]) needs |= mp_builder_needs(b, op, i);
    int n = op->op->extras(b->model, op, b->options->rules, extras);
    for (int e = 0; e < n; e++) {
        const int64_t bytes = b->options->for_gpu && extras[e].gpu_bytes ? extras[e].gpu_bytes : extras[e].bytes;
        if (!(needs & MP_EXTRA(e)) || !bytes) continue;
        const char *name = mp_pool_format(b->graph->pool, "%s:%s", op->name, extras[e].name);
        MP_CHECK(mp_builder_storage(b, name, bytes, MP_KIND_SAVED, &b->extras[k][e]));
        MP_CHECK(mp_builder_put(b, &b->writes, b->extras[k][e]));
        if (op->op->traits & MP_TRAIT_IN_PLACE) MP_CHECK(mp_builder_pair(b, b->storage[op->in[0]], b->extras[k][e]));
    }
    return MP_OK;
}

static mp_status build_outputs(mp_builder *b, int k)
{
    const mp_operator *op = &b->model->operators[k];
    for (int o = 0; o < op->n_out; o++) {
        int t = op->out[o];
        if (t < 0) continue;
        bool used = b->consumers.start[t + 1] > b->consumers.start[t];
        bool asked = t == b->loss || (b->loss < 0 && b->model->tensors[t].is_output);
        if (o > 0 && !used && !asked && !mp_op_gradient_reads_output(op->op, o)) continue;
        MP_CHECK(mp_builder_storage(b, b->model->tensors[t].name, mp_builder_bytes(b, t),
                                    asked ? MP_KIND_INPUT : MP_KIND_ACTIVATION, &b->storage[t]));
        MP_CHECK(mp_builder_put(b, &b->writes, b->storage[t]));
        MP_CHECK(mp_builder_lay_out_result(b, op, t));
        for (int i = 0; o == 0 && (op->op->traits & MP_TRAIT_IN_PLACE) && i < op->n_in; i++)
            if (op->in[i] >= 0) MP_CHECK(mp_builder_pair(b, b->storage[op->in[i]], b->storage[t]));
    }
    return MP_OK;
}

/* Returns the operator that computes the loss. Views between this operator and the loss tensor are skipped. */
static int loss_operator(const mp_builder *b)
{
    int t = b->loss;
    while (t >= 0) {
        int k = b->model->tensors[t].producer;
        if (k < 0 || b->model->operators[k].op->gradient != MP_GRADIENT_VIEW) return k;
        t = b->model->operators[k].in[0];
    }
    return -1;
}

/* Adds the running statistics of a batch normalization to its writes. They are static and updated in place. */
static mp_status write_statistics(mp_builder *b, const mp_operator *op)
{
    for (int i = 3; (op->op->traits & MP_TRAIT_STATISTICS) && i < 5 && i < op->n_in; i++) {
        int s = op->in[i] >= 0 ? b->storage[op->in[i]] : -1;
        if (s >= 0 && mp_kind_is_static(b->graph->storages[s].kind)) MP_CHECK(mp_builder_put(b, &b->writes, s));
    }
    return MP_OK;
}

static mp_status build_view(mp_builder *b, int k)
{
    const mp_operator *op = &b->model->operators[k];
    int from = op->in[0];
    int64_t offset = b->bindings->offset[from];
    for (int o = 0; o < op->n_out; o++) {
        int t = op->out[o];
        if (t < 0) continue;
        b->storage[t] = b->storage[from];
        b->bindings->offset[t] = offset;
        if (op->shares_rows) offset += mp_builder_bytes(b, t);
        MP_CHECK(mp_builder_lay_out(b, op, t));
    }
    return MP_OK;
}

/* Makes the loss node read the copies of parameters that autocast has cast. PyTorch keeps these copies until the autocast
 * region ends, which is after the loss. */
static mp_status hold_cached_copies(mp_builder *b, int64_t *unmoved)
{
    for (size_t k = 0; k < b->model->n_operators; k++) {
        const mp_operator *op = &b->model->operators[k];
        const size_t n = b->reads.n;
        if (!b->relevant[k] || !mp_casts_parameter(b->model, op)) continue;
        MP_CHECK(mp_builder_put(b, &b->reads, b->storage[op->out[0]]));
        if (b->reads.n > n) *unmoved += b->graph->storages[b->storage[op->out[0]]].payload_bytes;
    }
    return MP_OK;
}

static mp_status build_node(mp_builder *b, int k, mp_phase phase)
{
    mp_extra extras[MP_EXTRAS_MAX];
    const mp_operator *op = &b->model->operators[k];
    int64_t unmoved = 0;
    for (int i = 0; i < op->n_in; i++) {
        if (op->in[i] < 0) continue;
        MP_CHECK(mp_builder_put(b, &b->reads, b->storage[op->in[i]]));
        if (b->rows[op->in[i]] >= 0) MP_CHECK(mp_builder_use_rows(b, b->storage[op->in[i]], op->in[i]));
    }
    if (mp_builder_is_view(b, op)) {
        MP_CHECK(build_view(b, k));
        if (mp_builder_is_free_view(op)) {
            b->reads.n = b->n_used = 0;
            return MP_OK;
        }
    } else {
        MP_CHECK(build_outputs(b, k));
        MP_CHECK(build_extras(b, k, extras));
        MP_CHECK(mp_build_mask(b, k));
        MP_CHECK(mp_builder_copies(b, k));
        MP_CHECK(write_statistics(b, op));
    }
    int table = b->storage[op->n_in ? op->in[0] : op->out[0]], out = op->out[0] >= 0 ? b->storage[op->out[0]] : -1;
    if ((op->op->traits & MP_TRAIT_GATHER) && table >= 0 && out >= 0) {
        unmoved = b->graph->storages[table].payload_bytes - b->graph->storages[out].payload_bytes;
        if (unmoved < 0) unmoved = 0;
    }
    const bool has_cache = b->options->amp && b->options->rules == MP_RULES_PYTORCH;
    if (has_cache && phase == MP_PHASE_LOSS) MP_CHECK(hold_cached_copies(b, &unmoved));
    double flops = op->op->flops ? op->op->flops(b->model, op) : 0;
    mp_builder_task(b, MP_TASK_FORWARD, k);
    MP_CHECK(mp_builder_node(b, op->name, op->kind, phase, op, -1, flops, unmoved, &b->forward[k]));
    MP_CHECK(mp_build_alternative(b, k, b->forward[k]));
    mp_node *node = &b->graph->nodes[b->forward[k]];
    if (op->op->traits & MP_TRAIT_RANDOM) node->flags |= MP_NODE_RANDOM;
    if (mp_builder_is_view(b, op)) {
        node->flags |= MP_NODE_VIEW;
        node->alternatives[0].ticks = 0;
    }
    return MP_OK;
}

mp_status mp_build_forward(mp_builder *b)
{
    int loss = loss_operator(b);
    for (int k = 0; k < (int)b->model->n_operators; k++) {
        const mp_operator *op = &b->model->operators[k];
        if (!b->relevant[k]) continue;
        for (int i = 0; i < op->n_in; i++)
            if (op->in[i] >= 0) MP_CHECK(give_storage(b, op->in[i]));
        MP_CHECK(build_node(b, k, k == loss || op->chunk ? MP_PHASE_LOSS : MP_PHASE_FORWARD));
        if (op->chunk > 0 && op->op->traits & MP_TRAIT_LOSS) MP_CHECK(mp_build_chunk_backward(b, k));
    }
    return MP_OK;
}
