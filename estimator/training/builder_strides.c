/* builder_strides.c - views as PyTorch has them.
 *
 * Under the executor's rules a view changes only the shape. PyTorch's transpositions, slices and expansions are views
 * too, with strides: they share their input's storage and keep all of it alive. Operators that need dense memory (a
 * reshape of a permuted tensor, a batched product) copy them first, and then backward keeps the copy.
 */
#include "estimator/training/builder.h"

#include "estimator/model/ops_rules.h"
#include "estimator/rules/operands/layout.h"

/* True if the elements of a part along `axis` are contiguous. */
static bool part_is_dense(const mp_tensor *whole, const mp_tensor *part)
{
    bool differs = false;
    for (int d = 0; d < whole->rank && d < part->rank; d++) {
        if (differs && whole->dims[d] != part->dims[d]) return false;
        if (whole->dims[d] != part->dims[d]) differs = true;
        if (!differs && whole->dims[d] != 1) {
            for (int e = d + 1; e < whole->rank; e++)
                if (whole->dims[e] != part->dims[e]) return false;
        }
    }
    return true;
}

/* True if the operator takes one index along an axis. */
static bool selects(const mp_model *model, const mp_operator *op)
{
    const mp_tensor *index = op->n_in == 2 && op->op->traits & MP_TRAIT_GATHER ? mp_operator_in(model, op, 1) : NULL;
    return index && index->rank == 0 && index->value && mp_operator_in(model, op, 0)->rank > 0;
}

/* True for padding that only poolings read: PyTorch's pooling pads by itself, but exports write an operator for it. */
static bool pads_for_pooling(const mp_builder *b, const mp_operator *op)
{
    int t = op->out[0];
    const int *start = b->consumers.start;
    if (!(op->op->traits & MP_TRAIT_PADS) || t < 0 || b->model->tensors[t].is_output) return false;
    for (int c = start[t]; c < start[t + 1]; c++)
        if (!(b->model->operators[b->consumers.list[c]].op->traits & MP_TRAIT_PADS_ITSELF)) return false;
    return start[t] < start[t + 1];
}

unsigned char mp_builder_strides(const mp_builder *b, const mp_operator *op, int o)
{
    const mp_model *m = b->model;
    unsigned char inherited = b->strides[op->in[0]];
    if (op->op->traits & MP_TRAIT_PERMUTES) return mp_permutation_moves_ones(m, op) ? inherited : MP_STRIDES_PERMUTED;
    if (inherited == MP_STRIDES_PERMUTED || op->op->traits & MP_TRAIT_EXPANDS) return MP_STRIDES_PERMUTED;
    if (selects(m, op)) {
        const mp_tensor *x = mp_operator_in(m, op, 0);
        int64_t axis = mp_operator_int(op, "axis", 0);
        return mp_product(x->dims, 0, (int)(axis < 0 ? axis + x->rank : axis)) == 1 ? inherited : MP_STRIDES_GAPS;
    }
    bool dense = part_is_dense(mp_operator_in(m, op, 0), mp_operator_out(m, op, o));
    return dense ? inherited : MP_STRIDES_GAPS;
}

/* Returns the bytes of the dense copy that a batched product makes of operand i, 0 if none. It expands the operand's
 * batch dimensions to those of the result and merges them: a copy, unless all or none of them are expanded. */
static int64_t copy_bytes(const mp_builder *b, const mp_operator *op, int i)
{
    const mp_tensor *t = mp_operator_in(b->model, op, i), *other = mp_operator_in(b->model, op, 1 - i);
    const mp_tensor *y = mp_operator_out(b->model, op, 0);
    bool product = op->op->shape == mp_shape_matmul || op->op->shape == mp_shape_biased_matmul;
    bool batched = product || op->op->shape == mp_shape_einsum; /* convolutions read strided tensors */
    if (!batched || t->rank < 3 || b->storage[op->in[i]] < 0) return 0;
    int64_t bytes = mp_builder_bytes(b, op->in[i]), times = 1, expanded;
    bool kept = false;
    for (int d = 3; product && other && other->rank >= 3 && y && d <= y->rank; d++) {
        int64_t size = d <= t->rank ? t->dims[t->rank - d] : 1;
        if (size == 1)
            times *= y->dims[y->rank - d];
        else
            kept = true;
    }
    if (times > 1 && kept) return mp_multiply(bytes, times, &expanded) ? expanded : INT64_MAX / 2;
    return b->strides[op->in[i]] == MP_STRIDES_PERMUTED ? bytes : 0;
}

mp_status mp_builder_copies(mp_builder *b, int k)
{
    const mp_operator *op = &b->model->operators[k];
    if (b->options->rules != MP_RULES_PYTORCH || op->op->gradient != MP_GRADIENT_SPLIT) return MP_OK;
    for (int i = 0; i < 2 && i < op->n_in; i++) {
        int64_t bytes = op->in[i] >= 0 ? copy_bytes(b, op, i) : 0;
        if (!bytes) continue;
        const char *name = mp_pool_format(b->graph->pool, "%s:copy%d", op->name, i);
        MP_CHECK(mp_builder_storage(b, name, bytes, MP_KIND_SAVED, &b->copies[k][i]));
        MP_CHECK(mp_builder_put(b, &b->writes, b->copies[k][i]));
    }
    return MP_OK;
}

bool mp_builder_is_view(const mp_builder *b, const mp_operator *op)
{
    const unsigned strided = MP_TRAIT_PERMUTES | MP_TRAIT_EXPANDS | MP_TRAIT_PARTS;
    if (b->options->rules != MP_RULES_PYTORCH) return op->op->gradient == MP_GRADIENT_VIEW;
    if (op->op->gradient == MP_GRADIENT_VIEW) return b->strides[op->in[0]] != MP_STRIDES_PERMUTED;
    return op->op->traits & strided || selects(b->model, op) || pads_for_pooling(b, op);
}
