/* onnx_roles_constants.c - weights that are not initializers: Constant and ConstantOfShape operators, possibly transposed or
 * reshaped. Some exporters write all weights in this form. In files of other exporters, such a tensor is a fixed filter and
 * not trained. */
#include "formats/onnx/onnx.h"

#include <fnmatch.h>
#include <string.h>

#include "estimator/model/ops.h"

enum {
    CHAIN_MAX = 16
}; /* maximum number of consecutive transpositions and views between a tensor that --train names and its constant */

/* Finds the integers that an operator reads as a shape. They are in an initializer or a Constant. NULL: unknown. */
static const mp_value *shape_value(const mp_model *model, int tensor)
{
    const mp_tensor *t = tensor >= 0 ? &model->tensors[tensor] : NULL;
    if (!t || t->value || t->producer < 0) return t ? t->value : NULL;
    const mp_operator *op = &model->operators[t->producer];
    const mp_attribute *a = strcmp(op->kind, "Constant") ? NULL : mp_operator_attribute(op, "value");
    return a && a->kind == MP_ATTRIBUTE_TENSOR ? a->value : NULL;
}

/* A constant tensor that an operator writes: its type, its shape and, if it is stored, its value. */
typedef struct written {
    mp_dtype dtype;
    int rank;
    const int64_t *dims;
    mp_value *value;
} written;

/* Reads a Constant or ConstantOfShape operator that contains numbers. Returns false for other operators and for scalars. */
static bool read_constant(const mp_model *model, const mp_operator *op, written *out)
{
    const bool of_shape = !strcmp(op->kind, "ConstantOfShape") && op->n_in == 1;
    const mp_attribute *a = mp_operator_attribute(op, "value");
    if (op->removed || *op->domain || op->n_out != 1 || op->out[0] < 0 || (a && a->kind != MP_ATTRIBUTE_TENSOR)) return false;
    if (of_shape) {
        const mp_value *shape = shape_value(model, op->in[0]);
        if (!shape || shape->is_real || shape->n > MP_RANK_MAX) return false;
        *out = (written){a ? a->dtype : MP_DTYPE_FLOAT, (int)shape->n, shape->i, NULL};
    } else {
        if (strcmp(op->kind, "Constant") || !a) return false;
        *out = (written){a->dtype, a->rank, a->dims, a->value};
    }
    return out->rank > 0;
}

static int64_t elements_of(const written *c)
{
    int64_t n = 1;
    for (int k = 0; k < c->rank; k++)
        if (!mp_multiply(n, c->dims[k], &n)) return 0;
    return n;
}

/* True for the ones and zeros that an exporter writes as scale and bias of a normalization or layer that has none. */
static bool is_filling(const mp_operator *op, const written *c)
{
    const mp_tensor t = {.value = c->value};
    return c->rank < 2 && (mp_onnx_is_uniform(&t) || !strcmp(op->kind, "ConstantOfShape"));
}

/* Converts a constant to an initializer whose role is not chosen yet. */
static mp_status adopt(mp_model *model, mp_operator *op, const written *c, mp_error *err)
{
    mp_tensor *t = &model->tensors[op->out[0]];
    MP_CHECK(mp_tensor_set(model, op->out[0], c->dtype, c->rank, c->dims, err));
    t->value = c->value;
    t->role = MP_ROLE_CONSTANT;
    t->producer = -1;
    op->removed = true;
    return MP_OK;
}

/* Returns the number of elements of all weights among the initializers, and among the inputs with fixed shape. */
static int64_t count_inside(const mp_model *model, const mp_onnx_use *uses)
{
    int64_t n = 0;
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].role == MP_ROLE_PARAMETER && uses[k].how & MP_ONNX_READ_WEIGHT)
            (void)mp_add(n, mp_tensor_elements(&model->tensors[k]), &n);
    for (size_t k = 0; k < model->n_inputs; k++) {
        const mp_tensor *t = &model->tensors[model->inputs[k]];
        if (t->rank >= 0 && mp_onnx_is_weight(t, &uses[model->inputs[k]])) (void)mp_add(n, mp_tensor_elements(t), &n);
    }
    return n;
}

static int64_t count_outside(const mp_model *model, const mp_onnx_use *uses)
{
    int64_t n = 0;
    written c;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (!read_constant(model, op, &c) || !mp_dtype_is_float(c.dtype)) continue;
        if (uses[op->out[0]].makes_weight && !is_filling(op, &c)) (void)mp_add(n, elements_of(&c), &n);
    }
    return n;
}

mp_status mp_onnx_roles_adopt(mp_model *model, const mp_onnx_use *uses, mp_error *err)
{
    const int64_t inside = count_inside(model, uses);
    written c;
    if (count_outside(model, uses) <= inside) return MP_OK;
    for (size_t k = 0; k < model->n_operators; k++) {
        mp_operator *op = &model->operators[k];
        if (!read_constant(model, op, &c) || !mp_dtype_is_float(c.dtype)) continue;
        mp_tensor *t = &model->tensors[op->out[0]];
        const mp_onnx_use *u = &uses[op->out[0]];
        if (!strcmp(op->kind, "ConstantOfShape") && !u->makes_weight && u->how != MP_ONNX_READ_STATISTIC) continue;
        const mp_tensor before = *t;
        MP_CHECK(adopt(model, op, &c, err));
        mp_onnx_choose_initializer(model, t, u, MP_ONNX_ORIGIN_UNSAID, false);
        if (t->role == MP_ROLE_CONSTANT) { /* the rules for roles make the tensor a constant, so its conversion to an
                                              initializer is undone */
            *t = before;
            op->removed = false;
        } else if (inside && t->role == MP_ROLE_PARAMETER) {
            MP_CHECK(mp_model_doubt(model, MP_DOUBT_ADOPTED, t->name, mp_tensor_elements(t), err));
        }
    }
    return MP_OK;
}

/* If transpositions and views compute this tensor, returns the tensor at their start; else the tensor itself. */
static int root_of(const mp_model *model, int tensor)
{
    for (int k = 0; k < CHAIN_MAX && model->tensors[tensor].producer >= 0; k++) {
        const mp_operator *op = &model->operators[model->tensors[tensor].producer];
        const mp_op *row = mp_op_find(op->domain, op->kind, op->version);
        if (op->n_in < 1 || op->in[0] < 0 || mp_op_input_of(row, 0).use != MP_USE_THROUGH) break;
        tensor = op->in[0];
    }
    return tensor;
}

mp_status mp_onnx_roles_adopt_named(mp_model *model, const mp_onnx_use *uses, const char *pattern, bool *any, mp_error *err)
{
    const bool is_exact = !strpbrk(pattern, "*?[");
    written c;
    for (size_t k = 0; k < model->n_tensors; k++) {
        if (model->tensors[k].producer < 0 || fnmatch(pattern, model->tensors[k].name, 0)) continue;
        const int root = root_of(model, (int)k);
        mp_tensor *t = &model->tensors[root];
        mp_operator *op = t->producer >= 0 ? &model->operators[t->producer] : NULL;
        if (!is_exact && !uses[root].makes_weight) continue;
        if (op && (!read_constant(model, op, &c) || !mp_dtype_is_float(c.dtype))) continue;
        if (!op && (t->role == MP_ROLE_DATA || t->role == MP_ROLE_ACTIVATION || !mp_dtype_is_float(t->dtype))) continue;
        if (op) MP_CHECK(adopt(model, op, &c, err));
        if (t->role != MP_ROLE_PARAMETER) mp_onnx_set_role(t, MP_ROLE_PARAMETER, "named with --train");
        *any = true;
    }
    return MP_OK;
}

/* True for element types in which quantized weights are stored. */
static bool is_quantized(mp_dtype dtype)
{
    return mp_dtype_is_integer(dtype) && mp_dtype_bits(dtype) <= 8;
}

/* True if one matrix is the transpose of the other, or if their values are unknown and their shapes permit it. */
static bool may_be_transposed(const mp_tensor *a, const mp_tensor *b)
{
    if (a->rank != 2 || b->rank != 2 || a->dims[0] != b->dims[1] || a->dims[1] != b->dims[0]) return false;
    if (!a->value || !b->value || !a->value->is_real || !b->value->is_real) return true;
    for (int64_t i = 0; i < a->dims[0]; i++)
        for (int64_t j = 0; j < a->dims[1]; j++)
            if (a->value->f[i * a->dims[1] + j] != b->value->f[j * b->dims[1] + i]) return false;
    return true;
}

mp_status mp_onnx_roles_doubt_tied(mp_model *model, const mp_onnx_use *uses, mp_error *err)
{
    static const char folded[] =
        "onnx::MatMul_"; /* prefix of the names that PyTorch's older exporter gives to weights that it has transposed */
    for (size_t k = 0; k < model->n_tensors; k++) {
        const mp_tensor *t = &model->tensors[k];
        if (strncmp(t->name, folded, sizeof folded - 1) || t->producer >= 0) continue;
        for (size_t j = 0; j < model->n_tensors; j++) {
            const mp_tensor *rows = &model->tensors[j];
            if (rows->producer >= 0 || !(uses[j].how & MP_ONNX_READ_ROWS) || !may_be_transposed(t, rows)) continue;
            MP_CHECK(mp_model_doubt(model, MP_DOUBT_COPIED, rows->name, mp_tensor_elements(t), err));
            break;
        }
    }
    return MP_OK;
}

mp_status mp_onnx_roles_doubt_constants(mp_model *model, const mp_onnx_use *uses, mp_error *err)
{
    written c;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (!read_constant(model, op, &c) || !uses[op->out[0]].makes_weight || is_filling(op, &c)) continue;
        const bool is_float = mp_dtype_is_float(c.dtype);
        if (elements_of(&c) < 2 || !(is_float || is_quantized(c.dtype))) continue;
        MP_CHECK(mp_model_doubt(model, is_float ? MP_DOUBT_CONSTANT : MP_DOUBT_INTEGER, model->tensors[op->out[0]].name,
                                elements_of(&c), err));
    }
    for (size_t k = 0; k < model->n_tensors; k++) {
        const mp_tensor *t = &model->tensors[k];
        if (t->role == MP_ROLE_CONSTANT && t->producer < 0 && t->rank > 0 && is_quantized(t->dtype) && uses[k].makes_weight)
            MP_CHECK(mp_model_doubt(model, MP_DOUBT_INTEGER, t->name, mp_tensor_elements(t), err));
    }
    return MP_OK;
}
