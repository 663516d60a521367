/* builder_backward.c - builds gradients and backward nodes, in reverse order of the forward nodes.
 *
 * A tensor and its views share one gradient buffer. If the gradient has one contribution, a node writes the buffer; if it has
 * several, the buffer is a sum. The gradient of an addition's operand equals the gradient of the addition's output. This
 * contribution stays pending, without a node, until another contribution is computed into the operand's buffer. Only then a
 * node adds it there, in place if it is the last use of the other buffer. So only one buffer is live across the branch of a
 * residual connection.
 *
 * Under PyTorch's rules every computed contribution after the first is a separate tensor, as in autograd. Pending
 * contributions are added after the node of the operator. Sums are in place, with one exception: if the first contribution
 * to a parameter's gradient is a view (of a transposed weight), the sum is a third tensor. */
#include "estimator/training/builder.h"

#include "estimator/base/list.h"

/* FLOPs of backward relative to forward for tiled attention: five products instead of two, all of the same size. */
#define TILED_BACKWARD 2.5

/* A group of inputs whose gradients one node computes. */
typedef struct mp_group {
    int from, to; /* the node computes the gradients of the inputs [from, to) */
    const char *suffix;
} mp_group;

/* Divides the gradients of an operator into groups, one backward node each, in the order of these nodes. Parameter gradients
 * come first. The saved input is then no longer live when the data gradient is produced. */
static int groups_of(const mp_builder *b, const mp_operator *op, mp_group groups[2])
{
    if (op->op->gradient != MP_GRADIENT_SPLIT) {
        groups[0] = (mp_group){0, op->n_in, "backward"};
        return 1;
    }
    bool weights = op->n_in > 1 && op->in[1] >= 0 && b->model->tensors[op->in[1]].role == MP_ROLE_PARAMETER;
    groups[0] = (mp_group){1, op->n_in, weights ? "backward of parameters" : "backward of second operand"};
    groups[1] = (mp_group){0, 1, weights ? "backward of data" : "backward of first operand"};
    return 2;
}

static bool is_torch(const mp_builder *b)
{
    return b->options->rules == MP_RULES_PYTORCH;
}

static bool wants(const mp_builder *b, const mp_operator *op, int i)
{
    return op->in[i] >= 0 && b->has_gradient[op->in[i]];
}

static bool gives_gradient(const mp_builder *b, int k)
{
    const mp_operator *op = &b->model->operators[k];
    bool out = false, in = false;
    if (!b->relevant[k] || op->op->gradient == MP_GRADIENT_NONE) return false;
    for (int o = 0; o < op->n_out; o++) out |= op->out[o] >= 0 && b->has_gradient[op->out[o]];
    for (int i = 0; i < op->n_in; i++) in |= wants(b, op, i);
    return out && in;
}

/* Returns the forward node to which a backward node belongs; -1 for the backward node of a loss. */
static int forward_node(const mp_builder *b, int k)
{
    int node = b->forward[k];
    return node >= 0 && b->graph->nodes[node].phase == MP_PHASE_FORWARD ? node : -1;
}

static mp_gradient_buffer *gradient_of(mp_builder *b, int tensor)
{
    return &b->gradient[b->key[tensor]];
}

bool mp_builder_joins_rows(const mp_operator *op)
{
    return op->shares_rows && op->n_in > 1;
}

bool mp_builder_is_free_view(const mp_operator *op)
{
    return op->op->gradient == MP_GRADIENT_VIEW || (op->shares_rows && op->n_in == 1);
}

/* True if the gradients of the operator's inputs and outputs share one buffer. */
static bool shares_gradient(const mp_operator *op)
{
    return op->op->gradient == MP_GRADIENT_VIEW || op->shares_rows;
}

/* Makes the gradients of all outputs views of the gradient of input 0. */
static void share_with_input(mp_builder *b, const mp_operator *op)
{
    int64_t offset = b->bindings->gradient_offset[op->in[0]];
    for (int o = 0; o < op->n_out; o++) {
        const int t = op->out[o];
        if (t < 0) continue;
        b->key[t] = b->key[op->in[0]];
        b->rows[t] = op->shares_rows ? t : b->rows[op->in[0]];
        b->bindings->gradient_offset[t] = offset;
        if (op->shares_rows) offset += mp_builder_bytes(b, t);
    }
}

/* Makes the gradients of all inputs views of the gradient of the output. The inputs are neither views nor read by other
 * operators, so no other tensor shares their gradients. */
static void share_with_output(mp_builder *b, const mp_operator *op)
{
    int64_t offset = 0;
    for (int i = 0; i < op->n_in; i++) {
        b->key[op->in[i]] = b->key[op->out[0]];
        b->rows[op->in[i]] = op->in[i];
        b->bindings->gradient_offset[op->in[i]] = offset;
        offset += mp_builder_bytes(b, op->in[i]);
    }
}

void mp_builder_count_contributions(mp_builder *b)
{
    for (int k = 0; k < (int)b->model->n_operators; k++) {
        const mp_operator *op = &b->model->operators[k];
        if (!b->relevant[k] || !shares_gradient(op)) continue;
        if (mp_builder_joins_rows(op))
            share_with_output(b, op);
        else
            share_with_input(b, op);
    }
    for (int k = 0; k < (int)b->model->n_operators; k++) {
        const mp_operator *op = &b->model->operators[k];
        if (!gives_gradient(b, k) || shares_gradient(op)) continue;
        mp_group groups[2];
        int n = groups_of(b, op, groups);
        for (int g = 0; g < n; g++) {
            for (int i = groups[g].from; i < groups[g].to; i++) {
                bool again = false;
                if (!wants(b, op, i)) continue;
                for (int j = groups[g].from; op->op->gradient != MP_GRADIENT_ALIAS && j < i; j++)
                    again |= wants(b, op, j) && b->key[op->in[j]] == b->key[op->in[i]];
                if (!again) gradient_of(b, op->in[i])->n_contributions++;
            }
        }
    }
}

static mp_status ensure_storage(mp_builder *b, int tensor)
{
    int key = b->key[tensor];
    if (b->gradient[key].storage >= 0) return MP_OK;
    const char *name = mp_pool_format(b->graph->pool, "gradient of %s", b->model->tensors[key].name);
    return mp_builder_storage(b, name, mp_builder_bytes(b, key), MP_KIND_ACTIVATION_GRADIENT, &b->gradient[key].storage);
}

/* True if an earlier contribution has written the gradient of a tensor. If the tensor is a block of rows, this is decided per
 * block. In backward, the readers of all parts of one Split follow each other. All blocks therefore have a contribution before
 * another operator contributes. */
static bool has_contribution(mp_builder *b, mp_gradient_buffer *g, int tensor)
{
    const int rows = b->rows[tensor];
    if (rows < 0) return g->n_started > 0;
    const int split = b->model->tensors[rows].producer + 1;
    if (g->split != split) g->is_started = g->n_started > 0;
    g->split = split;
    const bool has_one = g->is_started || b->has_rows_gradient[rows];
    b->has_rows_gradient[rows] = true;
    return has_one;
}

/* Adds the gradient buffer of input `i` to the storages that the current node writes or adds to. i is 0 for nodes without an
 * operator. */
static mp_status put_buffer(mp_builder *b, int tensor, int i)
{
    MP_CHECK(ensure_storage(b, tensor));
    mp_gradient_buffer *g = gradient_of(b, tensor);
    mp_list *list = g->n_contributions > 1 ? &b->adds : &b->writes;
    size_t n = list->n;
    const bool has_one = g->n_contributions > 1 && has_contribution(b, g, tensor);
    MP_CHECK(mp_builder_put(b, list, g->storage));
    if (b->rows[tensor] >= 0) MP_CHECK(mp_builder_use_rows(b, g->storage, tensor));
    /* an operand that occurs twice, as in Mul(x, x): the same node adds the second gradient to the first */
    bool again = list->n == n;
    if (i < 64) b->binding.targets |= UINT64_C(1) << i;
    if (i < 64 && (again || has_one)) b->binding.adds |= UINT64_C(1) << i;
    if (!again) g->n_started++;
    return MP_OK;
}

static const char *node_name(const mp_builder *b, const char *name, const char *suffix)
{
    const char *text = mp_pool_format(b->graph->pool, "%s: %s", name, suffix);
    return text ? text : "";
}

/* Sets the offsets and the number of bytes that the current node copies or adds, if source or target is a block of rows. */
static mp_status put_source(mp_builder *b, const mp_pending *p)
{
    const int64_t bytes = mp_builder_bytes(b, p->tensor);
    const mp_gradient_buffer *g = gradient_of(b, p->tensor);
    const bool has_all = b->graph->storages[p->storage].payload_bytes == bytes;
    if (is_torch(b) || (b->rows[p->tensor] < 0 && has_all)) return MP_OK;
    b->binding.bytes = bytes;
    b->binding.source_offset = p->offset;
    b->binding.target_offset = g->offset + b->bindings->gradient_offset[p->tensor];
    return mp_builder_use_rows(b, p->storage, p->tensor);
}

/* Builds a node for each pending contribution, which copies it to the buffer or adds it. */
static mp_status flush(mp_builder *b, int tensor)
{
    mp_gradient_buffer *g = gradient_of(b, tensor);
    for (mp_pending *p = g->pending; p; p = p->next) {
        mp_builder_task(b, MP_TASK_ACCUMULATE, -1);
        MP_CHECK(mp_builder_put(b, &b->reads, p->storage));
        MP_CHECK(put_buffer(b, p->tensor, 0));
        MP_CHECK(put_source(b, p));
        b->binding.source = p->storage;
        b->binding.target = g->storage;
        MP_CHECK(mp_builder_pair(b, p->storage, g->storage));
        MP_CHECK(mp_builder_node(b, node_name(b, b->model->tensors[b->key[tensor]].name, "accumulate"), "Accumulate",
                                 MP_PHASE_BACKWARD, NULL, p->forward, 0, 0, NULL));
        if (g->starts_as_view)
            b->graph->nodes[b->graph->n_nodes - 1].alternatives->workspace_bytes += mp_builder_bytes(b, tensor);
        g->starts_as_view = false;
    }
    g->pending = NULL;
    return MP_OK;
}

static mp_status add_pending(mp_builder *b, int tensor, int storage, int64_t offset, int forward)
{
    mp_gradient_buffer *g = gradient_of(b, tensor);
    mp_pending *p;
    MP_ENSURE(p = mp_pool_alloc(b->graph->pool, 1, sizeof *p), b->err, MP_NOMEM, "out of memory");
    *p = (mp_pending){tensor, storage, offset, forward, NULL};
    *(g->pending ? &g->latest->next : &g->pending) = p;
    g->latest = p;
    return MP_OK;
}

/* True if PyTorch adds the gradient of input i as a view. This happens if the operator reads a parameter transposed. */
static bool is_turned(const mp_builder *b, const mp_operator *op, int i)
{
    const bool is_parameter = b->model->tensors[b->key[op->in[i]]].role == MP_ROLE_PARAMETER;
    return is_parameter && (b->key[op->in[i]] != op->in[i] || (i == 1 && mp_operator_int(op, "transB", 0)));
}

/* Adds the gradient of input i to the storages that the current node writes. */
static mp_status put_target(mp_builder *b, const mp_operator *op, int i)
{
    int part;
    const int tensor = op->in[i];
    mp_gradient_buffer *g = gradient_of(b, tensor);
    if (!is_torch(b) || g->n_contributions == 1 || !g->n_started) {
        g->starts_as_view = is_torch(b) && !op->chunk && is_turned(b, op, i);
        MP_CHECK(put_buffer(b, tensor, i));
        return MP_OK;
    }
    const char *name = mp_pool_format(b->graph->pool, "gradient of %s, part", b->model->tensors[b->key[tensor]].name);
    MP_CHECK(mp_builder_storage(b, name, mp_builder_bytes(b, b->key[tensor]), MP_KIND_ACTIVATION_GRADIENT, &part));
    MP_CHECK(mp_builder_put(b, &b->writes, part));
    return add_pending(b, tensor, part, 0, forward_node(b, (int)(op - b->model->operators)));
}

/* Completes a gradient. If it has a single pending contribution, this becomes the gradient. Several pending contributions
 * are added to the buffer. */
static mp_status complete(mp_builder *b, int tensor)
{
    mp_gradient_buffer *g = gradient_of(b, tensor);
    if (g->pending && g->n_contributions == 1) {
        g->storage = g->pending->storage;
        g->offset = g->pending->offset;
        g->pending = NULL;
    }
    return flush(b, tensor);
}

/* Adds the gradients of the operator's outputs to the storages that the current node reads. */
static mp_status put_output_gradients(mp_builder *b, const mp_operator *op)
{
    for (int o = 0; o < op->n_out; o++) {
        if (op->out[o] < 0 || !b->has_gradient[op->out[o]]) continue;
        const int storage = gradient_of(b, op->out[o])->storage;
        MP_CHECK(mp_builder_put(b, &b->reads, storage));
        if (storage >= 0 && !is_torch(b)) MP_CHECK(mp_builder_use_rows(b, storage, op->out[o]));
    }
    return MP_OK;
}

/* True if PyTorch does not save the operand, because it is an intermediate value of one call. */
static bool is_within_call(const mp_builder *b, const mp_operator *op, int k)
{
    const int producer = k < op->n_in && op->in[k] >= 0 ? b->model->tensors[op->in[k]].producer : -1;
    return producer >= 0 && b->model->operators[producer].saves == MP_SAVES_NO_OUTPUT;
}

/* Adds operand j to the storages that the current node reads. */
static mp_status put_operand(mp_builder *b, int k, int j)
{
    const mp_operator *op = &b->model->operators[k];
    const int storage = mp_builder_operand(b, k, j);
    MP_CHECK(mp_builder_put(b, &b->reads, storage));
    return storage >= 0 && b->rows[op->in[j]] >= 0 ? mp_builder_use_rows(b, storage, op->in[j]) : MP_OK;
}

/* Adds the values that the gradient of input i needs to the storages that the current node reads. */
static mp_status put_needs(mp_builder *b, int k, int i)
{
    const mp_operator *op = &b->model->operators[k];
    uint32_t needs = mp_builder_needs(b, op, i);
    if (op->saves == MP_SAVES_OUTPUT) needs = MP_OUT(0);
    if (op->saves == MP_SAVES_NO_OUTPUT) needs &= ~MP_OUT(0);
    if (op->saves == MP_SAVES_INDICES) needs &= MP_EXTRA(0);
    for (int bit = 0; bit < 8; bit++) {
        if (needs & MP_IN(bit) && !is_within_call(b, op, bit)) MP_CHECK(put_operand(b, k, bit));
        if ((needs & MP_OUT(bit)) && bit < op->n_out && op->out[bit] >= 0)
            MP_CHECK(mp_builder_put(b, &b->reads, b->storage[op->out[bit]]));
        if ((needs & MP_EXTRA(bit)) && bit < MP_EXTRAS_MAX) MP_CHECK(mp_builder_put(b, &b->reads, b->extras[k][bit]));
    }
    for (int j = 0; (needs & MP_INPUTS) && j < op->n_in; j++) MP_CHECK(put_operand(b, k, j));
    return MP_OK;
}

/* True if the current node reads the storage. */
static bool is_read(const mp_builder *b, int storage)
{
    return mp_list_has(b->reads.items, b->reads.n, storage);
}

/* Adds in-place pairs to a backward node. The gradient of an input may overwrite the gradient of an output. In an
 * elementwise operator it may also overwrite any saved value of its size. If the row of ops.def permits it, it may overwrite
 * input 0 of the same shape. */
static mp_status put_pairs(mp_builder *b, const mp_operator *op, const mp_group *group)
{
    if (!(op->op->traits & MP_TRAIT_GRADIENT_IN_PLACE)) return MP_OK;
    size_t n_sources = op->op->traits & MP_TRAIT_IN_PLACE ? b->reads.n : 1;
    for (size_t r = 0; r < n_sources && r < b->reads.n; r++)
        for (int i = group->from; i < group->to; i++)
            if (wants(b, op, i)) MP_CHECK(mp_builder_pair(b, b->reads.items[r], gradient_of(b, op->in[i])->storage));
    for (int i = group->from; (op->op->traits & MP_TRAIT_GRADIENT_IN_DATA) && i < group->to; i++) {
        const mp_tensor *x = mp_operator_in(b->model, op, 0), *of = mp_operator_in(b->model, op, i);
        if (!wants(b, op, i) || !mp_same_shape(x, of)) continue;
        int to = gradient_of(b, op->in[i])->storage;
        if (is_read(b, b->storage[op->in[0]])) MP_CHECK(mp_builder_pair(b, b->storage[op->in[0]], to));
    }
    return MP_OK;
}

static mp_status build_group(mp_builder *b, int k, const mp_group *group)
{
    const mp_operator *op = &b->model->operators[k];
    bool any = false, product = false;
    for (int i = group->from; i < group->to; i++) {
        if (!wants(b, op, i)) continue;
        if (!is_torch(b)) MP_CHECK(flush(b, op->in[i]));
        any = true;
        product |= i < 2;
    }
    if (!any) return MP_OK;
    mp_builder_task(b, MP_TASK_BACKWARD, k);
    b->binding.from = group->from;
    b->binding.to = group->to;
    MP_CHECK(put_output_gradients(b, op));
    for (int i = group->from; i < group->to; i++) {
        if (!wants(b, op, i)) continue;
        MP_CHECK(put_needs(b, k, i));
        MP_CHECK(put_target(b, op, i));
    }
    MP_CHECK(put_pairs(b, op, group));
    double flops = op->op->flops && product ? op->op->flops(b->model, op) : 0;
    if (op->op->traits & MP_TRAIT_TILED) flops *= TILED_BACKWARD;
    MP_CHECK(mp_builder_node(b, node_name(b, op->name, group->suffix), op->kind, MP_PHASE_BACKWARD, op, forward_node(b, k),
                             flops, 0, NULL));
    MP_CHECK(mp_build_alternative(b, k, (int)b->graph->n_nodes - 1));
    for (int i = group->from; i < group->to; i++)
        if (wants(b, op, i) && is_torch(b)) MP_CHECK(flush(b, op->in[i]));
    return MP_OK;
}

/* Builds the gradients of addition and subtraction. An operand gets an alias of the output's gradient. If the operand was
 * broadcast or negated, a node computes its gradient. */
static mp_status build_alias(mp_builder *b, int k)
{
    const mp_operator *op = &b->model->operators[k];
    int from = gradient_of(b, op->out[0])->storage;
    const int64_t offset = gradient_of(b, op->out[0])->offset + b->bindings->gradient_offset[op->out[0]];
    for (int i = 0; i < op->n_in; i++) {
        bool negated = i == 1 && (op->op->traits & MP_TRAIT_NEGATES), same;
        if (!wants(b, op, i)) continue;
        bool parameter = b->model->tensors[b->key[op->in[i]]].role == MP_ROLE_PARAMETER;
        same = mp_same_shape(&b->model->tensors[op->in[i]], &b->model->tensors[op->out[0]]);
        if (same && !negated && !parameter && from >= 0) {
            MP_CHECK(add_pending(b, op->in[i], from, offset, forward_node(b, k)));
            continue;
        }
        if (!is_torch(b)) MP_CHECK(flush(b, op->in[i]));
        mp_builder_task(b, MP_TASK_BACKWARD, k);
        b->binding.from = i;
        b->binding.to = i + 1;
        MP_CHECK(put_output_gradients(b, op));
        MP_CHECK(put_target(b, op, i));
        if (same) MP_CHECK(mp_builder_pair(b, from, gradient_of(b, op->in[i])->storage));
        MP_CHECK(mp_builder_node(b, node_name(b, op->name, same ? "backward" : "backward of broadcast operand"), op->kind,
                                 MP_PHASE_BACKWARD, op, forward_node(b, k), 0, 0, NULL));
        if (is_torch(b)) MP_CHECK(flush(b, op->in[i]));
    }
    return MP_OK;
}

/* For a graph without a loss: adds the gradients of the model's outputs as inputs of the graph. */
static mp_status build_given_gradients(mp_builder *b)
{
    for (size_t k = 0; b->loss < 0 && k < b->model->n_outputs; k++) {
        int t = b->model->outputs[k], storage;
        if (!b->has_gradient[t]) continue;
        const char *name = mp_pool_format(b->graph->pool, "gradient of %s, given", b->model->tensors[t].name);
        MP_CHECK(mp_builder_storage(b, name, mp_builder_bytes(b, t), MP_KIND_INPUT, &storage));
        MP_CHECK(add_pending(b, t, storage, 0, -1));
        gradient_of(b, t)->n_contributions++;
    }
    return MP_OK;
}

/* Completes the gradients of outputs that are parameters, for a graph without a loss. No operator produces a parameter, so
 * the loop over operators has not completed them. */
static mp_status complete_parameters(mp_builder *b)
{
    for (int t = 0; b->loss < 0 && t < (int)b->model->n_tensors; t++)
        if (b->has_gradient[t] && b->model->tensors[t].role == MP_ROLE_PARAMETER) MP_CHECK(flush(b, t));
    return MP_OK;
}

/* Builds the backward nodes of operator k. */
static mp_status build_operator(mp_builder *b, int k)
{
    const mp_operator *op = &b->model->operators[k];
    mp_group groups[2];
    if (!gives_gradient(b, k) || shares_gradient(op)) return MP_OK;
    for (int o = 0; o < op->n_out; o++)
        if (op->out[o] >= 0 && b->has_gradient[op->out[o]]) MP_CHECK(complete(b, op->out[o]));
    if (op->op->gradient == MP_GRADIENT_ALIAS) return build_alias(b, k);
    const int n = groups_of(b, op, groups);
    for (int g = 0; g < n; g++) MP_CHECK(build_group(b, k, &groups[g]));
    return MP_OK;
}

/* Builds the backward of one chunk. The gradient of a chunk's loss is the constant 1, so it has no storage. Operators that
 * belong to no chunk may be between those of the chunk. mp_build_backward builds their backward later. */
mp_status mp_build_chunk_backward(mp_builder *b, int loss)
{
    const mp_operator *operators = b->model->operators;
    const int chunk = operators[loss].chunk;
    for (int k = loss; k >= 0 && (operators[k].chunk == chunk || !operators[k].chunk); k--)
        if (operators[k].chunk) MP_CHECK(build_operator(b, k));
    return MP_OK;
}

mp_status mp_build_backward(mp_builder *b)
{
    MP_CHECK(build_given_gradients(b));
    for (int k = (int)b->model->n_operators - 1; k >= 0; k--)
        if (!b->model->operators[k].chunk) MP_CHECK(build_operator(b, k));
    return complete_parameters(b);
}
