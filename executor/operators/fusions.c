/* fusions.c - fuses batch normalization with a following ReLU, and with the addition of a residual connection between the two.
 */
#include "executor/operators/fusions.h"

#include <string.h>

#include "estimator/model/order.h"
#include "estimator/simplify/rewrite.h"

enum {
    NORMALIZED = 5,
    ADDED = 6
}; /* number of operands of the fused operator: NORMALIZED without a residual addition, ADDED with one */

/* Returns the index of the BatchNormalization that writes `tensor`; -1: another operator writes it. */
static int normalization_of(const mp_rewriter *r, int tensor)
{
    const int index = mp_producer(r, tensor);
    if (index < 0) return -1;
    const mp_operator *op = &r->model->operators[index];
    const bool spatial = op->version >= 9 || mp_operator_int(op, "spatial", 1);
    return mp_is_kind(op, "BatchNormalization") && op->out[0] == tensor && spatial ? index : -1;
}

static bool same_layout(const mp_tensor *a, const mp_tensor *b)
{
    return mp_same_shape(a, b) && a->dtype == b->dtype && a->stored.layout == b->stored.layout;
}

/* Returns the index of the BatchNormalization whose output is an operand of the addition `add`, and in *other the second
 * operand. -1: no operand is normalized, or the operands have different shapes. */
static int added_to(const mp_rewriter *r, const mp_operator *add, int *other)
{
    const mp_tensor *tensors = r->model->tensors;
    int norm = -1;
    if (!same_layout(&tensors[add->in[0]], &tensors[add->in[1]])) return -1;
    for (int k = 0; k < 2; k++) {
        const int index = normalization_of(r, add->in[k]);
        if (index <= norm || r->n_readers[add->in[k]] != 1) continue;
        norm = index;
        *other = add->in[1 - k];
    }
    return norm;
}

static mp_status fuse(mp_rewriter *r, int root)
{
    const mp_operator *relu = &r->model->operators[root];
    mp_pattern pattern = {.ops = {root}, .n = 1};
    int in[ADDED] = {0}, other = -1;
    if (!mp_is_kind(relu, "Relu")) return MP_OK;
    int norm = normalization_of(r, relu->in[0]);
    const int add = mp_producer(r, relu->in[0]);
    if (norm < 0 && add >= 0 && mp_is_kind(&r->model->operators[add], "Add")) {
        norm = added_to(r, &r->model->operators[add], &other);
        mp_pattern_add(&pattern, add);
    }
    if (norm < 0) return MP_OK;
    mp_pattern_add(&pattern, norm);
    if (!mp_pattern_is_closed(r, &pattern, root)) return MP_OK;
    const mp_operator *op = &r->model->operators[norm];
    memcpy(in, op->in, NORMALIZED * sizeof *in);
    in[NORMALIZED] = other;
    const mp_operator_draft draft = {.kind = other < 0 ? "BatchNormalizationRelu" : "BatchNormalizationAddRelu",
                                     .domain = "memplan",
                                     .version = 1,
                                     .in = in,
                                     .n_in = other < 0 ? NORMALIZED : ADDED,
                                     .attributes = op->attributes,
                                     .n_attributes = op->n_attributes};
    return mp_pattern_fuse(r, &pattern, root, &draft);
}

static void rewriter_free(mp_rewriter *r)
{
    mp_free(r->n_readers);
}

mp_status mp_fuse_batch_normalizations(mp_model *model, mp_error *err)
{
    MP_CLEARED_BY(rewriter_free) mp_rewriter r = {.model = model, .rules = MP_RULES_EXECUTOR, .err = err};
    MP_ENSURE(r.n_readers = mp_alloc(model->n_tensors, sizeof *r.n_readers), err, MP_NOMEM, "out of memory");
    mp_rewriter_start(&r);
    MP_CHECK(mp_rewriter_each(&r, fuse));
    mp_rewriter_start(&r);
    return mp_model_sort(model, err);
}
