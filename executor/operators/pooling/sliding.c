/* sliding.c - reads the attributes of windows and pools, and computes the padding if the attributes do not state it. */
#include "executor/operators/pooling/sliding.h"

#include <string.h>

#include "estimator/rules/operands/window.h"

/* Computes in *places the number of positions that `stops` consecutive windows of size `span` cover. Returns false on
 * overflow. */
static bool reach(int64_t stops, int64_t stride, int64_t span, int64_t *places)
{
    return mp_multiply(stops > 0 ? stops - 1 : 0, stride, places) && mp_add(*places, span, places);
}

/* Sets the sizes and the padding of a window. If the operator does not state its padding and the total padding is odd, the
 * larger half is at the end for SAME_UPPER, else at the start. Returns false on overflow. */
static bool read_pads(mp_sliding *s, const mp_operator *op, const mp_window *w, const mp_array *x, const mp_array *y)
{
    size_t n_padding;
    const int64_t *output_padding = mp_operator_ints(op, "output_padding", &n_padding);
    bool upper = !strcmp(mp_operator_text(op, "auto_pad", "NOTSET"), "SAME_UPPER");
    bool shaped = s->is_transposed && mp_operator_attribute(op, "output_shape");
    for (int d = 0; d < s->n; d++) {
        /* wide: size of the padded array over which the window slides; stops: number of window positions */
        int64_t wide = s->is_transposed ? y->dims[d + 2] : x->dims[d + 2];
        int64_t stops = s->is_transposed ? x->dims[d + 2] : y->dims[d + 2];
        int64_t total;
        if (!reach(stops, w->stride[d], w->span[d], &total)) return false;
        total -= wide;
        s->begin[d] = w->begin[d];
        if (w->padding == MP_PADDING_SAME || shaped) {
            int64_t shared = total + (s->is_transposed && output_padding ? output_padding[d] : 0);
            shared = shared > 0 ? shared : 0;
            s->begin[d] = upper ? shared / 2 : shared - shared / 2;
        }
        s->end[d] = total - s->begin[d];
        s->kernel[d] = w->kernel[d];
        s->stride[d] = w->stride[d];
        s->dilation[d] = w->dilation[d];
    }
    return true;
}

mp_status mp_sliding_convolution(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *weights,
                                 const mp_array *y, mp_sliding *out, mp_error *err)
{
    mp_infer infer = {.model = (mp_model *)model, .op = (mp_operator *)op, .err = err, .missing_value = -1};
    mp_window window;
    mp_sliding s = {.n = x->rank - 2, .is_transposed = op->op->traits & MP_TRAIT_TRANSPOSED};
    s.groups = mp_operator_int(op, "group", 1);
    MP_CHECK(mp_window_read(&infer, s.n, weights->dims + 2, &window));
    MP_ENSURE(read_pads(&s, op, &window, x, y), err, MP_UNSUPPORTED,
              "%s ('%s'): windows and strides over so many elements are not supported", op->kind, op->name);
    *out = s;
    return MP_OK;
}

mp_status mp_sliding_pool(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *y, bool global,
                          mp_sliding *out, mp_error *err)
{
    mp_infer infer = {.model = (mp_model *)model, .op = (mp_operator *)op, .err = err, .missing_value = -1};
    mp_window w;
    mp_sliding s = {.n = x->rank - 2, .groups = 1};
    bool lower = !strcmp(mp_operator_text(op, "auto_pad", "NOTSET"), "SAME_LOWER");
    if (!global) MP_CHECK(mp_window_read(&infer, s.n, NULL, &w));
    for (int d = 0; d < s.n; d++) {
        s.kernel[d] = global ? x->dims[d + 2] : w.kernel[d];
        s.stride[d] = global ? 1 : w.stride[d];
        s.dilation[d] = global ? 1 : w.dilation[d];
        s.begin[d] = global ? 0 : w.begin[d];
        s.end[d] = global ? 0 : w.end[d];
        if (!global && w.padding == MP_PADDING_SAME) {
            int64_t all;
            MP_ENSURE(reach(y->dims[d + 2], w.stride[d], w.span[d], &all), err, MP_UNSUPPORTED,
                      "%s ('%s'): windows and strides over so many elements are not supported", op->kind, op->name);
            all -= x->dims[d + 2];
            if (all < 0) all = 0;
            s.begin[d] = lower ? all - all / 2 : all / 2;
            s.end[d] = all - s.begin[d];
        }
    }
    *out = s;
    return MP_OK;
}

/* Maximum number of elements of a window. With a larger window, one training step would take hours. */
enum { TAPS_MAX = 1 << 24 };

#define ROW(kind, rule, is_global) {kind, MP_POOLING_##rule, is_global},
static const struct row {
    const char *name;
    mp_pooling_rule rule;
    bool is_global;
} rows[] = {MP_POOLINGS(ROW)};

mp_status mp_pooling_read(const mp_operands *x, mp_pooling *out, mp_error *err)
{
    const struct row *row = NULL;
    const mp_array *a = &x->in[0], *y = x->is_backward ? &x->d_out[0] : &x->out[0];
    const mp_attribute *p = mp_operator_attribute(x->op, "p");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].name, x->op->op->name)) row = &rows[k];
    if (!row) return MP_NO_KERNEL(x, err, "its rule");
    if (a->dtype != MP_DTYPE_FLOAT && a->dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    *out = (mp_pooling){.rule = row->rule, .is_global = row->is_global, .n_taps = 1};
    MP_CHECK(mp_sliding_pool(x->model, x->op, a, y, row->is_global, &out->window, err));
    for (int d = 0; d < out->window.n; d++)
        if (!mp_multiply(out->n_taps, out->window.kernel[d], &out->n_taps) || out->n_taps > TAPS_MAX)
            return MP_NO_KERNEL(x, err, "a window of this size");
    out->counts_pads = row->rule == MP_POOLING_AVERAGE && mp_operator_int(x->op, "count_include_pad", 0);
    out->backwards = mp_operator_int(x->op, "storage_order", 0);
    out->wide = row->is_global || out->n_taps > 256;
    out->p = p && p->kind == MP_ATTRIBUTE_FLOAT ? mp_operator_float(x->op, "p", 2) : (double)mp_operator_int(x->op, "p", 2);
    return MP_OK;
}
