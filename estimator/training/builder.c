/* builder.c - creates nodes of the training graph from lists of storages. */
#include "estimator/training/builder.h"

#include <math.h>
#include <string.h>

/* True for the loss, and for the parts of the loss of chunks. Both stay in float32. */
static bool is_loss(const mp_builder *b, int tensor)
{
    const int producer = b->model->tensors[tensor].producer;
    const mp_operator *op = producer < 0 ? NULL : &b->model->operators[producer];
    return tensor == b->loss || (op && op->chunk > 0 && op->op->traits & MP_TRAIT_LOSS);
}

mp_dtype mp_builder_dtype(const mp_builder *b, int tensor)
{
    const mp_tensor *t = &b->model->tensors[tensor];
    const bool half = t->dtype == MP_DTYPE_FLOAT && mp_dtype_bits(b->options->dtype) == 16 && t->role != MP_ROLE_BUFFER &&
                      !is_loss(b, tensor);
    if (mp_builder_is_lowered(b, tensor)) return b->options->amp;
    return half ? b->options->dtype : t->dtype;
}

bool mp_builder_is_lowered(const mp_builder *b, int tensor)
{
    const mp_tensor *t = &b->model->tensors[tensor];
    return b->options->gathers_low && b->options->amp && t->role == MP_ROLE_PARAMETER && t->dtype == MP_DTYPE_FLOAT;
}

int64_t mp_builder_bytes(const mp_builder *b, int tensor)
{
    const mp_tensor *t = &b->model->tensors[tensor];
    return mp_builder_dtype(b, tensor) != t->dtype ? mp_tensor_bytes(t) / 2 : mp_tensor_bytes(t);
}

uint32_t mp_builder_needs(const mp_builder *b, const mp_operator *op, int k)
{
    int last = MP_GRADIENTS_MAX - 1;
    return op->op->needs[b->options->rules][k < last ? k : last];
}

mp_status mp_builder_storage(mp_builder *b, const char *name, int64_t payload_bytes, mp_kind kind, int *index)
{
    mp_storage *s;
    MP_CHECK(mp_graph_storage(b->graph, &s, b->err));
    s->kind = kind;
    s->payload_bytes = payload_bytes;
    MP_ENSURE(name && (s->name = mp_pool_text(b->graph->pool, name, strlen(name))), b->err, MP_NOMEM, "out of memory");
    MP_ENSURE(mp_round_up(payload_bytes, b->target->alignment, &s->bytes), b->err, MP_INVALID,
              "'%s' has more bytes than can be counted", name);
    *index = (int)b->graph->n_storages - 1;
    return MP_OK;
}

mp_status mp_builder_put(mp_builder *b, mp_list *list, int storage)
{
    if (storage < 0) return MP_OK;
    for (size_t k = 0; k < list->n; k++)
        if (list->items[k] == storage) return MP_OK;
    MP_ENSURE(mp_grow(&list->items, &list->capacity, list->n + 1, sizeof *list->items), b->err, MP_NOMEM, "out of memory");
    list->items[list->n++] = storage;
    return MP_OK;
}

/* Returns the block of rows of a storage that the current node uses; NULL: the node uses the whole storage. */
static const mp_rows_used *rows_used(const mp_builder *b, int storage)
{
    for (size_t k = 0; k < b->n_used; k++)
        if (b->used[k].storage == storage) return &b->used[k];
    return NULL;
}

mp_status mp_builder_use_rows(mp_builder *b, int storage, int tensor)
{
    const int64_t bytes = mp_builder_bytes(b, tensor);
    if (storage < 0 || b->graph->storages[storage].payload_bytes == bytes || rows_used(b, storage)) return MP_OK;
    MP_ENSURE(mp_grow(&b->used, &b->used_capacity, b->n_used + 1, sizeof *b->used), b->err, MP_NOMEM, "out of memory");
    b->used[b->n_used++] = (mp_rows_used){storage, bytes};
    return MP_OK;
}

mp_status mp_builder_pair(mp_builder *b, int from, int to)
{
    if (from < 0 || to < 0 || from == to || b->options->rules == MP_RULES_PYTORCH) return MP_OK;
    const mp_storage *a = &b->graph->storages[from], *z = &b->graph->storages[to];
    if (rows_used(b, from) || rows_used(b, to)) return MP_OK;
    if (mp_kind_is_static(a->kind) || mp_kind_is_static(z->kind) || a->payload_bytes != z->payload_bytes) return MP_OK;
    MP_ENSURE(mp_grow(&b->pairs.items, &b->pairs.capacity, b->pairs.n + 2, sizeof *b->pairs.items), b->err, MP_NOMEM,
              "out of memory");
    b->pairs.items[b->pairs.n++] = from;
    b->pairs.items[b->pairs.n++] = to;
    return MP_OK;
}

/* Returns the bytes of the gradient that PyTorch's cross-entropy stores temporarily between its two operators. It has the
 * size of the scores. */
static int64_t unfused_bytes(const mp_builder *b, const mp_operator *op, mp_phase phase)
{
    const bool is_two = b->options->rules == MP_RULES_PYTORCH && op && op->op && op->op->traits & MP_TRAIT_CLASSES;
    if (!is_two || phase != MP_PHASE_BACKWARD) return 0;
    const int widened = b->options->amp && mp_builder_dtype(b, op->in[0]) == b->options->amp
                            ? 2
                            : 1; /* under autocast, cross-entropy computes in float32 */
    return widened * mp_builder_bytes(b, op->in[0]);
}

/* Returns the bytes of the storages of a list that the current node uses. */
static int64_t used_bytes(const mp_builder *b, const mp_list *list)
{
    int64_t sum = 0;
    for (size_t k = 0; k < list->n; k++) {
        const mp_rows_used *rows = rows_used(b, list->items[k]);
        sum += rows ? rows->bytes : b->graph->storages[list->items[k]].payload_bytes;
    }
    return sum;
}

/* Returns the bytes that the current node moves: storages in reads and writes count once, storages in adds twice. */
static int64_t moved_bytes(const mp_builder *b)
{
    return used_bytes(b, &b->reads) + used_bytes(b, &b->writes) + 2 * used_bytes(b, &b->adds);
}

void mp_builder_task(mp_builder *b, mp_task task, int op)
{
    b->binding = (mp_binding){.task = task, .op = op, .source = -1, .target = -1, .state = -1, .parameter = -1};
}

/* Returns the source line of the operator's first output that has a source line, copied into the graph's pool. NULL:
 * unknown. */
static const char *source_of(const mp_builder *b, const mp_operator *op)
{
    const char *source = NULL;
    for (int k = 0; op && !source && k < op->n_out; k++)
        if (op->out[k] >= 0) source = b->model->tensors[op->out[k]].source;
    return source ? mp_pool_text(b->graph->pool, source, strlen(source))
                  : NULL; /* a lack of memory also gives NULL and no error, because the source line is optional */
}

/* Returns the element type in which the operator computes its matrix products. */
static mp_dtype product_type(const mp_builder *b, const mp_operator *op)
{
    const bool by_operator = b->options->amp && op && op->n_in && op->in[0] >= 0;
    return by_operator ? mp_builder_dtype(b, op->in[0]) : b->options->dtype;
}

mp_status mp_builder_node(mp_builder *b, const char *name, const char *kind, mp_phase phase, const mp_operator *op,
                          int forward_of, double flops, int64_t unmoved_bytes, int *index)
{
    mp_node *node;
    mp_cost cost = {0};
    mp_graph *g = b->graph;
    mp_bindings *bound = b->bindings;
    mp_work work = {.model = b->model,
                    .op = op,
                    .phase = phase,
                    .flops = flops,
                    .moved_bytes = moved_bytes(b) - unmoved_bytes,
                    .dtype = product_type(b, op),
                    .foreach = b->options->rules == MP_RULES_PYTORCH ? b->optimizer_name : NULL,
                    .binding = &b->binding,
                    .bindings = bound};
    MP_ENSURE(mp_grow(&bound->nodes, &bound->capacity, g->n_nodes + 1, sizeof *bound->nodes), b->err, MP_NOMEM,
              "out of memory");
    bound->nodes[bound->n_nodes++] = b->binding;
    MP_CHECK(b->target->cost(b->target, &work, &cost, b->err));
    MP_CHECK(mp_graph_node(g, &node, b->err));
    mp_alternative *alternative = node->alternatives;
    node->name = mp_pool_text(g->pool, name, strlen(name));
    node->op = mp_pool_text(g->pool, kind, strlen(kind));
    node->source = source_of(b, op);
    node->phase = phase;
    node->flops = flops;
    node->forward_of = forward_of;
    alternative->ticks = llround(cost.seconds / g->tick_seconds);
    alternative->workspace_bytes = cost.workspace_bytes + unfused_bytes(b, op, phase);
    alternative->reads = mp_graph_list(g, b->reads.items, alternative->n_reads = b->reads.n);
    alternative->writes = mp_graph_list(g, b->writes.items, alternative->n_writes = b->writes.n);
    alternative->adds = mp_graph_list(g, b->adds.items, alternative->n_adds = b->adds.n);
    alternative->n_in_place = b->pairs.n / 2;
    alternative->in_place = mp_pool_alloc(g->pool, alternative->n_in_place, sizeof *alternative->in_place);
    MP_ENSURE(node->name && node->op && alternative->reads && alternative->writes && alternative->adds && alternative->in_place,
              b->err, MP_NOMEM, "out of memory");
    for (size_t k = 0; k < alternative->n_in_place; k++)
        alternative->in_place[k] = (mp_in_place){b->pairs.items[2 * k], b->pairs.items[2 * k + 1]};
    b->reads.n = b->writes.n = b->adds.n = b->pairs.n = b->n_used = 0;
    if (cost.collective.n_legs) {
        node->collective = mp_graph_collective(g, &cost.collective);
        MP_ENSURE(node->collective, b->err, MP_NOMEM, "out of memory");
    }
    if (index) *index = (int)g->n_nodes - 1;
    return MP_OK;
}
