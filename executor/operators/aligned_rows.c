/* aligned_rows.c - finds the results and weights of matrix products whose rows can be aligned. */
#include "executor/operators/aligned_rows.h"

#include <string.h>

#include "estimator/model/ops.h"
#include "estimator/model/order.h"

static bool is_named(const mp_operator *op, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(op->op->name, *names)) return true;
    return false;
}

static bool is_product(const mp_operator *op)
{
    static const char *const names[] = {"MatMul", "Gemm", "FusedMatMul", NULL};
    return is_named(op, names);
}

static bool is_class_loss(const mp_operator *op)
{
    static const char *const names[] = {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", NULL};
    return is_named(op, names);
}

static int64_t row_of(const mp_tensor *t)
{
    return t->dims[t->rank - 1];
}

static bool reads_rows(const mp_model *model, const mp_consumers *consumers, int t);

/* True if the kernels of an operator compute correct results if tensor t has unused elements between rows. */
static bool accepts(const mp_model *model, const mp_consumers *consumers, const mp_operator *op, int t)
{
    const mp_tensor *x = &model->tensors[t], *y = mp_operator_out(model, op, 0);
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i] == t && i > 0 && !(i == 1 && is_product(op))) return false; /* t may be a factor, but not a bias */
    if (op->op->gradient == MP_GRADIENT_VIEW)
        return y && y->rank >= 1 && row_of(y) == row_of(x) && reads_rows(model, consumers, op->out[0]);
    /* the log-probabilities, the second output, have the offsets of the scores */
    if (is_class_loss(op)) return !mp_operator_out(model, op, 1);
    return is_product(op);
}

/* True if all readers of tensor t accept aligned rows. */
static bool reads_rows(const mp_model *model, const mp_consumers *consumers, int t)
{
    if (model->tensors[t].stored.layout != MP_LAYOUT_PLAIN) return false;
    for (int k = consumers->start[t]; k < consumers->start[t + 1]; k++)
        if (!accepts(model, consumers, &model->operators[consumers->list[k]], t)) return false;
    return true;
}

static void align(mp_model *model, const mp_consumers *consumers, int t)
{
    model->tensors[t].stored.layout = MP_LAYOUT_ALIGNED_ROWS;
    for (int k = consumers->start[t]; k < consumers->start[t + 1]; k++) {
        const mp_operator *op = &model->operators[consumers->list[k]];
        if (op->op->gradient == MP_GRADIENT_VIEW) align(model, consumers, op->out[0]);
    }
}

static bool is_odd(const mp_tensor *t)
{
    return mp_dtype_is_float(t->dtype) && row_of(t) >= MP_ALIGNED_ROWS_MIN && row_of(t) % MP_ROW_ALIGNMENT;
}

/* True for a weight that products alone read, and whose columns are aligned, but not its rows. */
static bool is_turned_weight(const mp_model *model, const mp_consumers *consumers, int t)
{
    const mp_tensor *w = &model->tensors[t];
    const int start = consumers->start[t], end = consumers->start[t + 1];
    if (w->role != MP_ROLE_PARAMETER || w->rank != 2 || w->stored.layout != MP_LAYOUT_PLAIN || w->stored.packed) return false;
    if (start == end || !is_odd(w) || w->dims[0] % MP_ROW_ALIGNMENT || w->is_output) return false;
    for (int k = start; k < end; k++) {
        const mp_operator *op = &model->operators[consumers->list[k]];
        if (!is_product(op) || !accepts(model, consumers, op, t)) return false;
    }
    return true;
}

static bool is_worth_it(const mp_model *model, const mp_tensor *y, const mp_operator *op)
{
    const mp_tensor *a = mp_operator_in(model, op, 0), *b = mp_operator_in(model, op, 1);
    return y->rank >= 2 && a && b && a->rank >= 2 && b->rank >= 2 && is_odd(y) && mp_tensor_elements(y) > row_of(y);
}

mp_status mp_align_rows(mp_model *model, mp_error *err)
{
    MP_CLEARED_BY(mp_consumers_free) mp_consumers consumers = {0};
    MP_CHECK(mp_model_consumers(model, &consumers, err));
    for (size_t t = 0; t < model->n_tensors; t++)
        if (is_turned_weight(model, &consumers, (int)t)) model->tensors[t].stored.layout = MP_LAYOUT_COLUMN_MAJOR;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        const mp_tensor *y = op->removed || !is_product(op) ? NULL : mp_operator_out(model, op, 0);
        if (y && is_worth_it(model, y, op) && reads_rows(model, &consumers, op->out[0])) align(model, &consumers, op->out[0]);
    }
    return MP_OK;
}

mp_aligned_rows mp_aligned_rows_of(const mp_model *model)
{
    mp_aligned_rows all = {0};
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        const mp_tensor *y = op->removed || !is_product(op) ? NULL : mp_operator_out(model, op, 0);
        if (!y || !mp_row_padding(y)) continue;
        all.n_tensors++;
        all.elements += mp_stored_elements(y) - mp_tensor_elements(y);
    }
    return all;
}
