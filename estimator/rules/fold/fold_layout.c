/* fold_layout.c - values of operators that move, repeat, cut or join elements without computing. */
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"
#include "estimator/rules/operands/layout.h"

/* Operators that give every element a new shape and leave its place: values never change, so the two tensors may share one. */
mp_status mp_fold_copy(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    mp_tensor *out = mp_infer_out(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    if (x && in->value && in->dtype == out->dtype && x->n == mp_tensor_elements(out)) out->value = in->value;
    return MP_OK;
}

/* Output k walks over the elements of `x` at `start` and from there by `stride`. */
static mp_status take(mp_infer *c, int k, const mp_value *x, int64_t start, const int64_t *stride)
{
    mp_tensor *out = mp_infer_out(c, k);
    mp_value *y;
    mp_walk walk;
    MP_CHECK(mp_fold_new(c, k, &y));
    mp_walk_start(&walk, out->rank, out->dims);
    memcpy(walk.stride[0], stride, (size_t)out->rank * sizeof *stride);
    for (; walk.k < walk.n; mp_walk_next(&walk)) mp_fold_move(y, walk.k, x, start + walk.at[0]);
    out->value = y;
    return MP_OK;
}

mp_status mp_fold_transpose(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    int permutation[MP_RANK_MAX];
    int64_t strides[MP_RANK_MAX], moved[MP_RANK_MAX];
    if (!x) return MP_OK;
    MP_CHECK(mp_permutation_read(c, permutation));
    mp_strides(in->rank, in->dims, strides);
    for (int d = 0; d < in->rank; d++) moved[d] = strides[permutation[d]];
    return take(c, 0, x, 0, moved);
}

mp_status mp_fold_slice(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0), *out = mp_infer_out(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    mp_slice slice;
    bool known = false;
    int64_t strides[MP_RANK_MAX], start = 0;
    if (x) MP_CHECK(mp_slice_read(c, &slice, &known));
    if (!known) return MP_OK;
    mp_strides(in->rank, in->dims, strides);
    for (int d = 0; d < in->rank; d++) {
        start += slice.start[d] * strides[d];
        /* a single element is not stepped from, and its step may be out of all proportion */
        strides[d] = out->dims[d] > 1 ? strides[d] * slice.step[d] : 0;
    }
    return take(c, 0, x, start, strides);
}

mp_status mp_fold_split(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    int64_t strides[MP_RANK_MAX], start = 0, axis = mp_operator_int(c->op, "axis", 0);
    if (!x) return MP_OK;
    if (axis < 0) axis += in->rank;
    mp_strides(in->rank, in->dims, strides);
    for (int k = 0; k < c->op->n_out; k++) {
        const mp_tensor *out = mp_infer_out(c, k);
        if (!out) break; /* where the next part starts is not known */
        MP_CHECK(take(c, k, x, start, strides));
        start += out->dims[axis] * strides[axis];
    }
    return MP_OK;
}

mp_status mp_fold_expand(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0), *out = mp_infer_out(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    mp_walk walk;
    mp_walk_start(&walk, out->rank, out->dims);
    if (!x || !mp_walk_broadcast(&walk, 0, in->rank, in->dims)) return MP_OK;
    return take(c, 0, x, 0, walk.stride[0]);
}

mp_status mp_fold_concat(mp_infer *c)
{
    const mp_tensor *out = mp_infer_out(c, 0);
    int64_t axis = mp_operator_int(c->op, "axis", 1);
    if (axis < 0) axis += out->rank;
    int64_t outer = mp_product(out->dims, 0, (int)axis), row = mp_product(out->dims, (int)axis, out->rank), start = 0;
    mp_value *y;
    for (int k = 0; k < c->op->n_in; k++)
        if (!mp_fold_in(c, k) || mp_infer_in(c, k)->dtype != out->dtype) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    if (!y->n) outer = 0; /* whose number nothing bounds */
    for (int k = 0; k < c->op->n_in; k++) {
        const mp_tensor *in = mp_infer_in(c, k);
        const mp_value *x = mp_fold_in(c, k);
        int64_t part = mp_product(in->dims, (int)axis, in->rank);
        for (int64_t r = 0; r < outer; r++)
            for (int64_t i = 0; i < part; i++) mp_fold_move(y, r * row + start + i, x, r * part + i);
        start += part;
    }
    return mp_fold_give(c, y);
}

mp_status mp_fold_tile(mp_infer *c)
{
    const mp_tensor *in = mp_infer_in(c, 0);
    const mp_tensor *out = mp_infer_out(c, 0);
    const mp_value *x = mp_fold_in(c, 0);
    int64_t strides[MP_RANK_MAX];
    mp_value *y;
    mp_walk walk;
    if (!x || in->rank != out->rank || (!x->n && mp_tensor_elements(out))) return MP_OK;
    MP_CHECK(mp_fold_new(c, 0, &y));
    mp_strides(in->rank, in->dims, strides);
    for (mp_walk_start(&walk, out->rank, out->dims); walk.k < walk.n; mp_walk_next(&walk)) {
        int64_t from = 0;
        for (int d = 0; d < in->rank; d++) from += walk.index[d] % in->dims[d] * strides[d];
        mp_fold_move(y, walk.k, x, from);
    }
    return mp_fold_give(c, y);
}

/* Keeps the upper (or lower) triangle of the last two dimensions: column - row >= k (or <= k). */
mp_status mp_fold_trilu(mp_infer *c)
{
    const mp_tensor *out = mp_infer_out(c, 0);
    const mp_value *x = mp_fold_in(c, 0), *diagonal = mp_infer_in(c, 1) ? mp_fold_in(c, 1) : NULL;
    bool upper = mp_operator_int(c->op, "upper", 1);
    mp_value *y;
    mp_walk walk;
    if (!x || out->rank < 2) return MP_OK;
    if (mp_infer_in(c, 1) && (!diagonal || diagonal->n != 1 || diagonal->is_real)) return MP_OK;
    int64_t k = diagonal ? diagonal->i[0] : 0;
    MP_CHECK(mp_fold_new(c, 0, &y));
    for (mp_walk_start(&walk, out->rank, out->dims); walk.k < walk.n; mp_walk_next(&walk)) {
        int64_t offset = walk.index[out->rank - 1] - walk.index[out->rank - 2];
        if (upper ? offset >= k : offset <= k) mp_fold_move(y, walk.k, x, walk.k);
    }
    return mp_fold_give(c, y);
}
