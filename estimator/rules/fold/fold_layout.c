/* fold_layout.c - fold rules of operators that rearrange, repeat, split or join elements without arithmetic. */
#include <string.h>

#include "estimator/model/ops_rules.h"
#include "estimator/rules/fold/fold.h"
#include "estimator/rules/operands/layout.h"

/* Folds operators that change only the shape, not the elements or their order. Values never change, so two tensors may share
 * one value. */
bool mp_fold_copy(const mp_fold *f)
{
    const bool same = f->in->dtype == f->out->dtype && f->x->n == mp_tensor_elements(f->out);
    f->out->value = same ? f->in->value : NULL;
    return true;
}

/* Fills output k with elements of x: the first is at `start`, and the indices increase by `stride`. */
static bool take(const mp_fold *f, int k, int64_t start, const int64_t *stride)
{
    const mp_tensor *out = mp_infer_out(f->c, k);
    mp_walk walk;
    mp_walk_start(&walk, out->rank, out->dims);
    memcpy(walk.stride[0], stride, (size_t)out->rank * sizeof *stride);
    for (; walk.k < walk.n; mp_walk_next(&walk)) mp_fold_move(out->value, walk.k, f->x, start + walk.at[0]);
    return true;
}

bool mp_fold_transpose(const mp_fold *f)
{
    int permutation[MP_RANK_MAX];
    int64_t strides[MP_RANK_MAX], moved[MP_RANK_MAX];
    if (mp_permutation_read(f->c, permutation) != MP_OK) return false;
    mp_strides(f->in->rank, f->in->dims, strides);
    for (int d = 0; d < f->in->rank; d++) moved[d] = strides[permutation[d]];
    return take(f, 0, 0, moved);
}

bool mp_fold_slice(const mp_fold *f)
{
    mp_slice slice;
    bool known;
    int64_t strides[MP_RANK_MAX], start = 0;
    if (mp_slice_read(f->c, &slice, &known) != MP_OK || !known) return false;
    mp_strides(f->in->rank, f->in->dims, strides);
    for (int d = 0; d < f->in->rank; d++) {
        start += slice.start[d] * strides[d];
        /* if only one element is selected, no step is needed, and the given step may be out of range */
        strides[d] = f->out->dims[d] > 1 ? strides[d] * slice.step[d] : 0;
    }
    return take(f, 0, start, strides);
}

bool mp_fold_split(const mp_fold *f)
{
    int64_t strides[MP_RANK_MAX], start = 0, axis = mp_operator_int(f->c->op, "axis", 0);
    if (axis < 0) axis += f->in->rank;
    mp_strides(f->in->rank, f->in->dims, strides);
    for (int k = 0; k < f->c->op->n_out && mp_infer_out(f->c, k); k++) {
        take(f, k, start, strides);
        start += mp_infer_out(f->c, k)->dims[axis] * strides[axis];
    }
    return true;
}

bool mp_fold_expand(const mp_fold *f)
{
    mp_walk walk;
    mp_walk_start(&walk, f->out->rank, f->out->dims);
    return mp_walk_broadcast(&walk, 0, f->in->rank, f->in->dims) && take(f, 0, 0, walk.stride[0]);
}

bool mp_fold_concat(const mp_fold *f)
{
    const mp_tensor *out = f->out;
    int64_t axis = mp_operator_int(f->c->op, "axis", 1);
    if (axis < 0) axis += out->rank;
    int64_t outer = mp_product(out->dims, 0, (int)axis), row = mp_product(out->dims, (int)axis, out->rank), start = 0;
    if (!f->y->n)
        outer = 0; /* for a result without elements the loops below are skipped, because `outer`, the product of some of its
                      dimensions, may be huge */
    for (int k = 0; k < f->c->op->n_in; k++) {
        const mp_tensor *in = mp_infer_in(f->c, k);
        const mp_value *x = mp_fold_in(f->c, k);
        const int64_t part = mp_product(in->dims, (int)axis, in->rank);
        for (int64_t r = 0; r < outer; r++)
            for (int64_t i = 0; i < part; i++) mp_fold_move(f->y, r * row + start + i, x, r * part + i);
        start += part;
    }
    return true;
}

bool mp_fold_tile(const mp_fold *f)
{
    int64_t strides[MP_RANK_MAX];
    mp_walk walk;
    mp_strides(f->in->rank, f->in->dims, strides);
    for (mp_walk_start(&walk, f->out->rank, f->out->dims); walk.k < walk.n; mp_walk_next(&walk)) {
        int64_t from = 0;
        for (int d = 0; d < f->in->rank; d++) from += walk.index[d] % f->in->dims[d] * strides[d];
        mp_fold_move(f->y, walk.k, f->x, from);
    }
    return true;
}

/* Folds Trilu: keeps the upper triangle (column - row >= k) or the lower triangle (column - row <= k) of the last two
 * dimensions. */
bool mp_fold_trilu(const mp_fold *f)
{
    const bool upper = mp_operator_int(f->c->op, "upper", 1);
    const int64_t k = mp_infer_in(f->c, 1) ? mp_fold_in(f->c, 1)->i[0] : 0;
    mp_walk walk;
    for (mp_walk_start(&walk, f->out->rank, f->out->dims); walk.k < walk.n; mp_walk_next(&walk)) {
        const int64_t offset = walk.index[f->out->rank - 1] - walk.index[f->out->rank - 2];
        if (upper ? offset >= k : offset <= k) mp_fold_move(f->y, walk.k, f->x, walk.k);
    }
    return true;
}
