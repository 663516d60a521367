/* attention_spec.c - reads sizes, scale, masks and strides of Q, K, V and Y. */
#include "executor/operators/attention/attention_spec.h"

#include <math.h>

#include "estimator/base/memory.h"

/* Describes an array as a stack of matrices with the batch dimensions of `like`. Batch dimensions are matched from the last one
 * on. turned: rows and columns are exchanged. */
static mp_matrices matrices_of(const mp_array *a, const mp_array *like, bool turned)
{
    mp_matrices m = {.dtype = a->dtype, .n_batch = like->rank - 2};
    int lead = like->rank - a->rank;
    int64_t stride[MP_ARRAY_RANK] = {0};
    for (int d = lead; d < like->rank; d++) stride[d] = a->dims[d - lead] == 1 ? 0 : a->strides[d - lead];
    for (int d = 0; d < m.n_batch; d++) {
        m.batch[d] = like->dims[d];
        m.batch_stride[d] = stride[d];
    }
    m.row_stride = stride[like->rank - (turned ? 1 : 2)];
    m.column_stride = stride[like->rank - (turned ? 2 : 1)];
    return m;
}

/* Returns input k or the output of an attention with permuted dimensions, as the attributes permQ, ..., permY state. Dimension
 * d of Q is dimension permQ[d] of the array; dimension d of the output array is dimension permY[d] of Y. */
static mp_array meant(const mp_operands *x, const mp_array *a, int k)
{
    const int64_t *perm = mp_attention_perm(x->op, k);
    mp_array m = *a;
    for (int d = 0; perm && d < a->rank; d++) {
        const int to = k == MP_ATTENTION_Y ? (int)perm[d] : d, from = k == MP_ATTENTION_Y ? d : (int)perm[d];
        m.dims[to] = a->dims[from];
        m.strides[to] = a->strides[from];
    }
    return m;
}

static bool is_there(const mp_operands *x, int k)
{
    return k < x->n_in && x->in[k].dtype != MP_DTYPE_UNDEFINED;
}

static bool is_real(mp_dtype dtype)
{
    return dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16;
}

mp_status mp_attention_spec_read(const mp_operands *x, mp_attention_spec *out, mp_error *err)
{
    const mp_operator *op = x->op;
    const mp_array q = meant(x, &x->in[0], 0), k = meant(x, &x->in[1], 1), v = meant(x, &x->in[2], 2);
    const mp_array y = meant(x, x->is_backward ? &x->d_out[0] : &x->out[0], MP_ATTENTION_Y);
    mp_attention_spec f = {.size = mp_attention_read(x->model, op)};
    for (int i = 0; i < 3; i++) {
        if (!is_real(x->in[i].dtype)) return MP_NO_KERNEL(x, err, "its type");
        f.wants[i] = x->is_backward && x->d_in[i].dtype != MP_DTYPE_UNDEFINED;
        if (f.wants[i] && !mp_array_same_layout(&x->in[i], &x->d_in[i])) return MP_NO_KERNEL(x, err, "a change of layout");
    }
    if (x->is_backward && is_there(x, MP_ATTENTION_POSITIONS) && x->d_in[MP_ATTENTION_POSITIONS].dtype)
        return MP_NO_KERNEL(x, err, "the gradient of booleans");
    if (mp_operator_int(op, "groups", 1) > 1) return MP_NO_KERNEL(x, err, "heads that share keys");
    if (is_there(x, MP_ATTENTION_ADDED) && !is_real(x->in[MP_ATTENTION_ADDED].dtype))
        return MP_NO_KERNEL(x, err, "a mask of this type");
    f.scale = (float)mp_operator_float(op, "scale", 1);
    f.fill = (float)mp_operator_float(op, "fill", -INFINITY);
    f.ratio = x->mode == MP_MODE_TRAIN ? (float)mp_operator_float(op, "ratio", 0) : 0;
    f.causal = mp_operator_int(op, "causal", 0) != 0;
    f.safe = mp_operator_int(op, "safe", 0) != 0;
    f.keeps = mp_operator_int(op, "keeps", 1) != 0;
    f.q = matrices_of(&q, &q, false);
    f.k = matrices_of(&k, &q, mp_operator_int(op, "transK", 0) != 0);
    f.v = matrices_of(&v, &q, false);
    f.y = matrices_of(&y, &q, false);
    if (is_there(x, MP_ATTENTION_ADDED)) {
        f.added = matrices_of(&x->in[MP_ATTENTION_ADDED], &q, false);
        f.wants[MP_ATTENTION_ADDED] = x->is_backward && x->d_in[MP_ATTENTION_ADDED].dtype != MP_DTYPE_UNDEFINED;
        if (f.wants[MP_ATTENTION_ADDED]) f.d_added = matrices_of(&x->d_in[MP_ATTENTION_ADDED], &q, false);
    }
    if (is_there(x, MP_ATTENTION_POSITIONS)) f.positions = matrices_of(&x->in[MP_ATTENTION_POSITIONS], &q, false);
    *out = f;
    return MP_OK;
}

/* ---- the layout of the joint mask. */

enum { ROW_UNIT = 8 }; /* the rows of the joint mask are multiples of this number of BFLOAT16 elements (16 bytes) */

static bool varies(const mp_matrices *m, int d)
{
    return m->dtype && m->batch_stride[d];
}

bool mp_joint_mask_read(const mp_attention_spec *form, mp_joint_mask *out, int64_t *bytes)
{
    const mp_attention *size = &form->size;
    int64_t extent;
    *out = (mp_joint_mask){.added = form->added,
                           .positions = form->positions,
                           .to = {.dtype = MP_DTYPE_BFLOAT16, .n_batch = form->q.n_batch, .column_stride = 1},
                           .rows = size->rows,
                           .columns = size->columns,
                           .n = 1,
                           .fill = form->fill,
                           .keeps = form->keeps};
    if (!mp_round_up(size->columns, ROW_UNIT, &out->to.row_stride) || !mp_multiply(out->to.row_stride, size->rows, &extent))
        return false;
    for (int d = form->q.n_batch - 1; d >= 0; d--) {
        out->to.batch[d] = form->q.batch[d];
        if (!varies(&form->added, d) && !varies(&form->positions, d)) continue;
        out->to.batch_stride[d] = extent;
        out->n *= form->q.batch[d];
        if (!mp_multiply(extent, form->q.batch[d], &extent)) return false;
    }
    return mp_multiply(extent, (int64_t)sizeof(uint16_t), bytes);
}
