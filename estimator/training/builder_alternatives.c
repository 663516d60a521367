/* builder_alternatives.c - adds alternatives to nodes, for targets that support them.
 *
 * A random operator draws its mask again in backward; its alternative saves the mask. The backward of a normalization reads
 * its input; its alternative reads the output, and reconstructs the normalized values from output, scale and shift (Bulo,
 * Porzi, Kontschieder 2018, "In-Place Activated BatchNorm"). The input then need not be saved if the output is saved anyway.
 * This alternative rounds differently, so it exists only if the user permits results that depend on the plan. */
#include "estimator/graph/liveness.h"
#include "estimator/training/builder.h"

static bool wants_gradient(const mp_builder *b, const mp_operator *op)
{
    return op->op->gradient == MP_GRADIENT_ONE && op->in[0] >= 0 && b->has_gradient[op->in[0]];
}

static bool keeps_mask(const mp_builder *b, const mp_operator *op)
{
    const unsigned traits = MP_TRAIT_RANDOM | MP_TRAIT_IN_PLACE; /* a random operator that may run in place is elementwise, so
                                                                    its mask has one byte per output element */
    return b->target->alternatives && (op->op->traits & traits) == traits && wants_gradient(b, op);
}

static bool starts_from_output(const mp_builder *b, const mp_operator *op)
{
    return b->target->alternatives && b->options->inexact && (op->op->traits & MP_TRAIT_FROM_OUTPUT) && wants_gradient(b, op) &&
           op->n_in > 2 && op->in[1] >= 0 && op->in[2] >= 0;
}

mp_status mp_build_mask(mp_builder *b, int k)
{
    const mp_operator *op = &b->model->operators[k];
    if (!keeps_mask(b, op)) return MP_OK;
    int64_t bytes = mp_tensor_elements(&b->model->tensors[op->out[0]]);
    const char *name = mp_pool_format(b->graph->pool, "%s:mask", op->name);
    return mp_builder_storage(b, name, bytes, MP_KIND_SAVED, &b->extras[k][0]);
}

/* Returns list[0..n) without storage `drop`, plus the storages of `more` that it lacks. */
static int *changed(mp_builder *b, const int *list, size_t *n, int drop, const int *more, size_t n_more)
{
    int *out = mp_pool_alloc(b->graph->pool, *n + n_more, sizeof *out);
    size_t kept = 0;
    for (size_t k = 0; out && k < *n; k++)
        if (list[k] != drop) out[kept++] = list[k];
    for (size_t m = 0; out && m < n_more; m++) {
        bool there = more[m] < 0;
        for (size_t k = 0; k < kept; k++) there |= out[k] == more[m];
        if (!there) out[kept++] = more[m];
    }
    *n = kept;
    return out;
}

static int64_t bytes_of(const mp_builder *b, const mp_alternative *alternative)
{
    int64_t bytes = 1;
    for (size_t k = 0; k < alternative->n_reads; k++) bytes += b->graph->storages[alternative->reads[k]].payload_bytes;
    for (size_t k = 0; k < alternative->n_writes; k++) bytes += b->graph->storages[alternative->writes[k]].payload_bytes;
    return bytes;
}

mp_status mp_build_alternative(mp_builder *b, int k, int index)
{
    const mp_operator *op = &b->model->operators[k];
    mp_node *node = &b->graph->nodes[index];
    bool mask = keeps_mask(b, op), output = node->phase == MP_PHASE_BACKWARD && starts_from_output(b, op);
    if (!mask && !output) return MP_OK;
    mp_alternative *alternatives = mp_pool_alloc(b->graph->pool, 2, sizeof *alternatives), *f = alternatives + 1;
    MP_ENSURE(alternatives, b->err, MP_NOMEM, "out of memory");
    alternatives[0] = alternatives[1] = node->alternatives[0];
    int more[3] = {-1, -1, -1}, drop = -1;
    if (mask) {
        more[0] = b->extras[k][0];
    } else {
        drop = b->storage[op->in[0]];
        more[0] = b->storage[op->out[0]];
        more[1] = b->storage[op->in[1]];
        more[2] = b->storage[op->in[2]];
    }
    f->in_place = mp_pool_alloc(b->graph->pool, f->n_in_place, sizeof *f->in_place);
    MP_ENSURE(f->in_place, b->err, MP_NOMEM, "out of memory");
    if (mask && node->phase == MP_PHASE_FORWARD)
        f->writes = changed(b, alternatives[0].writes, &f->n_writes, -1, more, 1);
    else
        f->reads = changed(b, alternatives[0].reads, &f->n_reads, drop, more, 3);
    MP_ENSURE(f->reads && f->writes, b->err, MP_NOMEM, "out of memory");
    f->n_in_place = 0;
    for (size_t p = 0; p < alternatives[0].n_in_place; p++)
        if (mp_pair_is_inherited(f, alternatives[0].in_place[p])) f->in_place[f->n_in_place++] = alternatives[0].in_place[p];
    /* random operators and normalizations are limited by memory bandwidth, so their time is proportional to the bytes that they
     * move */
    f->ticks = (int64_t)((double)f->ticks * (double)bytes_of(b, f) / (double)bytes_of(b, alternatives));
    node->alternatives = alternatives;
    node->n_alternatives = 2;
    return MP_OK;
}
