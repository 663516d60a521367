/* onnx_sines.c - the first position and the range. */
#include "formats/onnx/onnx_sines.h"

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
