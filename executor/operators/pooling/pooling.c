/* pooling.c - reads the rule and the window of a pool. */
#include "executor/operators/pooling/pooling.h"

#include <string.h>

/* Places that one window looks at: more is no pool, and would keep a step for hours. */
enum { TAPS_MAX = 1 << 24 };

static const struct row {
    const char *name;
    mp_pooling_rule rule;
    bool is_global;
} rows[] = {
    {"MaxPool", MP_POOLING_MAXIMUM, false},
    {"AveragePool", MP_POOLING_AVERAGE, false},
    {"LpPool", MP_POOLING_NORM, false},
    {"GlobalMaxPool", MP_POOLING_MAXIMUM, true},
    {"GlobalAveragePool", MP_POOLING_AVERAGE, true},
    {"GlobalLpPool", MP_POOLING_NORM, true},
};

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
            return MP_NO_KERNEL(x, err, "so large a window");
    out->counts_pads = row->rule == MP_POOLING_AVERAGE && mp_operator_int(x->op, "count_include_pad", 0);
    out->backwards = mp_operator_int(x->op, "storage_order", 0);
    out->wide = row->is_global || out->n_taps > 256;
    out->p = p && p->kind == MP_ATTRIBUTE_FLOAT ? mp_operator_float(x->op, "p", 2) : (double)mp_operator_int(x->op, "p", 2);
    return MP_OK;
}
