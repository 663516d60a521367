#include "executor/stacks.h"

mp_stack mp_stack_transposed(mp_stack a)
{
    int64_t n = a.rows, s = a.row_stride;
    a.rows = a.columns;
    a.row_stride = a.column_stride;
    a.columns = n;
    a.column_stride = s;
    return a;
}

mp_stack mp_stack_of(const mp_array *a, int k, bool turn, bool turn_batch)
{
    mp_stack s = {.dtype = a->dtype, .rows = 1, .columns = 1, .row_stride = 1, .column_stride = 1};
    int order[MP_ARRAY_RANK] = {0};
    for (int d = 0; d < a->rank; d++) order[d] = d;
    if (a->rank <= 1) {
        s.rows = k ? a->dims[0] : 1;
        s.columns = k ? 1 : a->dims[0];
        *(k ? &s.row_stride : &s.column_stride) = a->strides[0];
        if (k) s.column_stride = 1;
        if (!k) s.row_stride = a->dims[0] * a->strides[0];
        return s;
    }
    if (turn_batch && a->rank > 2) {
        int first = order[0];
        for (int d = 0; d < a->rank - 2; d++) order[d] = order[d + 1];
        order[a->rank - 2] = first;
    }
    s.n_batch = a->rank - 2;
    for (int d = 0; d < s.n_batch; d++) {
        s.batch[d] = a->dims[order[d]];
        s.batch_stride[d] = a->strides[order[d]];
    }
    int row = order[a->rank - 2], column = order[a->rank - 1];
    s.rows = a->dims[row];
    s.row_stride = a->strides[row];
    s.columns = a->dims[column];
    s.column_stride = a->strides[column];
    return turn ? mp_stack_transposed(s) : s;
}

mp_stack mp_stack_result(const mp_array *y, const mp_stack *a, const mp_stack *b, bool vector_a, bool vector_b)
{
    mp_stack s = {.dtype = y->dtype, .rows = a->rows, .columns = b->columns, .row_stride = 1, .column_stride = 1};
    int d = y->rank;
    if (!vector_b) s.column_stride = y->strides[--d];
    if (!vector_a) s.row_stride = y->strides[--d];
    if (vector_b) s.column_stride = 1;
    if (vector_a) s.row_stride = s.columns * s.column_stride;
    if (vector_b && !vector_a && s.rows > 0) s.column_stride = s.rows * s.row_stride;
    s.n_batch = d;
    for (int k = 0; k < d; k++) {
        s.batch[k] = y->dims[k];
        s.batch_stride[k] = y->strides[k];
    }
    return s;
}

bool mp_stack_is_single(const mp_stack *s)
{
    for (int d = 0; d < s->n_batch; d++)
        if (s->batch[d] != 1) return false;
    return true;
}

bool mp_stack_fold(mp_stack *s)
{
    int64_t rows = s->rows, stride = s->row_stride;
    for (int d = s->n_batch - 1; d >= 0; d--) {
        if (s->batch[d] == 1) continue;
        if (rows == 1) stride = s->batch_stride[d];
        if (s->batch_stride[d] != rows * stride) return false;
        rows *= s->batch[d];
    }
    s->rows = rows;
    s->row_stride = stride;
    s->n_batch = 0;
    return true;
}

void mp_stack_straighten(mp_stack *s)
{
    if (s->columns == 1) s->column_stride = 1;
    if (s->rows == 1) s->row_stride = s->column_stride == 1 ? s->columns : 1;
}

mp_factors mp_factors_read(const mp_operands *x)
{
    const mp_operator *op = x->op;
    mp_factors f;
    const mp_array *y = x->is_backward ? &x->d_out[0] : &x->out[0];
    f.alpha = mp_operator_float(op, "alpha", 1);
    f.beta = mp_operator_float(op, "beta", 1);
    f.a = mp_stack_of(&x->in[0], 0, mp_operator_int(op, "transA", 0), mp_operator_int(op, "transBatchA", 0));
    f.b = mp_stack_of(&x->in[1], 1, mp_operator_int(op, "transB", 0), mp_operator_int(op, "transBatchB", 0));
    f.y = mp_stack_result(y, &f.a, &f.b, x->in[0].rank == 1, x->in[1].rank == 1);
    return f;
}

bool mp_factors_bias(const mp_array *c, const mp_factors *f)
{
    return f->alpha == 1 && f->beta == 1 && c->rank >= 1 && c->dims[c->rank - 1] == f->y.columns &&
           c->strides[c->rank - 1] == 1 && mp_array_elements(c) == f->y.columns;
}
