/* onnx_generated.c - recognises constants that the program computed: tables of sines and cosines of positions, and causal
 * masks. The elements of a mask are read but not stored. */
#include "formats/onnx/onnx.h"

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

mp_status mp_onnx_masks(mp_model *model, const char *path, mp_error *err)
{
    MP_OWNED_BY(mp_onnx_weights_close) mp_onnx_weights *weights = NULL;
    for (size_t k = 0; k < model->n_tensors; k++) {
        if (!is_square(&model->tensors[k])) continue;
        if (!weights) MP_CHECK(mp_onnx_weights_open(path, model->external_folder, &weights, err));
        MP_CHECK(look(weights, model, (int)k, err));
    }
    return MP_OK;
}
