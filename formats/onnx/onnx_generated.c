/* onnx_generated.c - recognises constants that the program computed: tables of sines and cosines of positions, and causal
 * masks. The elements of a mask are read but not stored. */
#include "formats/onnx/onnx.h"

#include <math.h>
#include <string.h>

#include "formats/onnx/onnx_weights.h"

bool mp_onnx_is_sines(const mp_tensor *t)
{
    const mp_value *v = t->value;
    const int64_t width = t->rank > 1 ? t->dims[t->rank - 1] : 0;
    int64_t ones = 0, others = 0;
    if (!v || !v->is_real || width < 2 || v->n < 2 * width) return false;
    for (int64_t k = 0; k < v->n; k++) {
        if (!(v->f[k] >= -1 && v->f[k] <= 1)) return false;
        if (k < width && v->f[k] != 0 && v->f[k] != 1) return false;
        if (k < width) ones += v->f[k] == 1;
        if (k >= width) others += v->f[k] != 0 && v->f[k] != 1;
    }
    return 2 * ones == width && others > 0;
}

enum { SIDE_MAX = 1 << 14 }; /* a mask is read only if it has at most this number of rows and columns */

/* True if the tensor may be a mask that all samples share. */
static bool is_square(const mp_tensor *t)
{
    bool fits = t->producer < 0 && !t->value && (t->dtype == MP_DTYPE_BOOL || t->dtype == MP_DTYPE_UINT8) && t->rank >= 2 &&
                (t->role == MP_ROLE_BUFFER || t->role == MP_ROLE_CONSTANT);
    for (int d = 0; fits && d < t->rank - 2; d++) fits = t->dims[d] == 1;
    const int64_t n = fits ? t->dims[t->rank - 1] : 0;
    return n > 1 && n <= SIDE_MAX && t->dims[t->rank - 2] == n;
}

/* Returns the structure (mp_mask) of a mask of n x n elements. */
static mp_mask mask_of(const uint8_t *element, int64_t n)
{
    const bool keeps = element[0] != 0;
    for (int64_t row = 0; row < n; row++)
        for (int64_t column = 0; column < n; column++)
            if ((element[row * n + column] != 0) != (keeps == (column <= row))) return MP_MASK_UNKNOWN;
    return keeps ? MP_MASK_PAST : MP_MASK_FUTURE;
}

/* True if a Where operator writes a negative constant where the mask is true. */
static bool hides_where_true(const mp_model *model, int mask)
{
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        const mp_tensor *chosen = mp_operator_in(model, op, 1);
        if (strcmp(op->kind, "Where") != 0 || op->in[0] != mask || !chosen || !chosen->value || !chosen->value->n) continue;
        return (chosen->value->is_real ? chosen->value->f[0] : (double)chosen->value->i[0]) < 0;
    }
    return false;
}

static mp_status look(const mp_onnx_weights *weights, mp_model *model, int tensor, mp_error *err)
{
    mp_tensor *t = &model->tensors[tensor];
    const int64_t n = t->dims[t->rank - 1];
    MP_OWNED uint8_t *elements = NULL;
    if (!mp_onnx_weights_have(weights, t->name)) {
        if (t->role == MP_ROLE_BUFFER && t->dtype == MP_DTYPE_BOOL)
            t->mask = hides_where_true(model, tensor) ? MP_MASK_FUTURE : MP_MASK_PAST;
        return MP_OK;
    }
    MP_ENSURE(elements = mp_alloc((size_t)n, (size_t)n), err, MP_NOMEM, "no memory for the mask '%s'", t->name);
    if (mp_onnx_weights_read(weights, t->name, t->dtype, n * n, elements, NULL) == MP_OK) t->mask = mask_of(elements, n);
    return MP_OK;
}

/* True if an operator of this type is found by following operands backwards from a tensor: all operands of And, and the first
 * operand of other operators. Each visited operator takes one of the *left visits. */
static bool finds(const mp_model *model, int tensor, const char *kind, int *left)
{
    while (tensor >= 0 && model->tensors[tensor].producer >= 0 && (*left)-- > 0) {
        const mp_operator *op = &model->operators[model->tensors[tensor].producer];
        if (!strcmp(op->kind, kind)) return true;
        if (!strcmp(op->kind, "And") && op->n_in > 1 && finds(model, op->in[1], kind, left)) return true;
        tensor = op->n_in ? op->in[0] : -1;
    }
    return false;
}

/* True if a tensor is computed from the result of an operator of this type. The limit of visits keeps files with many paths
 * from taking exponential time. */
static bool comes_from(const mp_model *model, int tensor, const char *kind)
{
    int left = 64;
    return finds(model, tensor, kind, &left);
}

/* Sets mp_tensor.given of tensors that may be masks of attention. The older exporter writes is_causal=True as
 * Where(Equal(Trilu(ones), 0), -inf, 0). A mask that an exporter has computed has a generated name, such as "val_12". */
static void note_given(mp_model *model)
{
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        mp_tensor *y = op->n_out && op->out[0] >= 0 ? &model->tensors[op->out[0]] : NULL;
        if (!y || strcmp(op->kind, "Where") != 0 || op->in[0] < 0) continue;
        const int by = model->tensors[op->in[0]].producer;
        if (by >= 0 && !strcmp(model->operators[by].kind, "Equal") && comes_from(model, op->in[0], "Trilu"))
            y->given = MP_MASK_BY_FLAG;
        else if (comes_from(model, op->in[0], "LessOrEqual"))
            y->given = MP_MASK_BY_POSITIONS;
    }
    for (size_t k = 0; k < model->n_tensors; k++) {
        mp_tensor *t = &model->tensors[k];
        const bool is_generated =
            model->is_of_newer_exporter ? mp_onnx_names_result_of(t->name, "val") : !strncmp(t->name, "onnx::", 6);
        if (is_generated && t->given == MP_MASK_AS_TENSOR) t->given = MP_MASK_BY_FLAG;
    }
}

/* Returns the Add that computes the operand of a softmax, as it adds a mask to scores; NULL: there is none. */
static const mp_operator *masking_of(const mp_model *model, const mp_operator *softmax)
{
    const mp_tensor *x = strcmp(softmax->kind, "Softmax") ? NULL : mp_operator_in(model, softmax, 0);
    const mp_operator *op = x && x->producer >= 0 ? &model->operators[x->producer] : NULL;
    return op && !strcmp(op->kind, "Add") ? op : NULL;
}

/* Makes a buffer of a parameter that is added to scores, if it contains infinities, which trained parameters do not. */
static mp_status look_for_infinity(const mp_onnx_weights *weights, mp_tensor *t, mp_error *err)
{
    const int64_t n = mp_tensor_elements(t);
    MP_OWNED float *elements = NULL;
    if (!mp_onnx_weights_have(weights, t->name)) return MP_OK;
    MP_ENSURE(elements = mp_alloc((size_t)n, sizeof *elements), err, MP_NOMEM, "no memory for the mask '%s'", t->name);
    if (mp_onnx_weights_read(weights, t->name, t->dtype, n, elements, NULL) != MP_OK) return MP_OK;
    for (int64_t k = 0; k < n; k++)
        if (isinf(elements[k])) {
            mp_onnx_set_role(t, MP_ROLE_BUFFER, "a mask of attention, as it contains infinities");
            break;
        }
    return MP_OK;
}

/* True for a parameter that may be a mask, which has a number per row and column of the scores. */
static bool may_be_mask(const mp_tensor *t)
{
    return t->role == MP_ROLE_PARAMETER && t->dtype == MP_DTYPE_FLOAT && t->rank >= 2 && t->dims[t->rank - 1] > 1 &&
           t->dims[t->rank - 2] > 1 && mp_tensor_elements(t) <= (int64_t)SIDE_MAX * SIDE_MAX;
}

mp_status mp_onnx_masks(mp_model *model, const char *path, mp_error *err)
{
    MP_OWNED_BY(mp_onnx_weights_close) mp_onnx_weights *weights = NULL;
    note_given(model);
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *add = masking_of(model, &model->operators[k]);
        for (int i = 0; add && i < 2; i++) {
            if (!may_be_mask(&model->tensors[add->in[i]])) continue;
            if (!weights) MP_CHECK(mp_onnx_weights_open(path, model->external_folder, &weights, err));
            MP_CHECK(look_for_infinity(weights, &model->tensors[add->in[i]], err));
        }
    }
    for (size_t k = 0; k < model->n_tensors; k++) {
        if (!is_square(&model->tensors[k])) continue;
        if (!weights) MP_CHECK(mp_onnx_weights_open(path, model->external_folder, &weights, err));
        MP_CHECK(look(weights, model, (int)k, err));
    }
    return MP_OK;
}
