/* stacks.c - describes the operands of matrix products as stacks of matrices: transposed, broadcast, folded into one matrix. */
#include "executor/operators/products/stacks.h"

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

mp_stacks mp_factors_forward(const mp_factors *f)
{
    mp_stacks p = {f->a, f->b, f->y};
    if (!mp_stack_is_single(&p.b) || !mp_stack_fold(&p.a) || !mp_stack_fold(&p.c)) return (mp_stacks){f->a, f->b, f->y};
    p.b.n_batch = 0;
    return p;
}

mp_stacks mp_factors_gradient(const mp_factors *f, int factor)
{
    mp_stack dy = f->y, a = f->a, b = f->b;
    if (mp_stack_is_single(&b) && mp_stack_fold(&dy) && mp_stack_fold(&a)) {
        b.n_batch = 0;
    } else {
        dy = f->y;
        a = f->a;
    }
    return factor ? (mp_stacks){mp_stack_transposed(a), dy, b} : (mp_stacks){dy, mp_stack_transposed(b), a};
}

bool mp_stacks_spread(mp_stacks *p, mp_array *terms, mp_array *to)
{
    const mp_stack c = p->c;
    mp_stack *full = &p->c;
    bool sums = false;
    int n_batch = p->a.n_batch > p->b.n_batch ? p->a.n_batch : p->b.n_batch;
    if (n_batch + 2 > MP_ARRAY_RANK) n_batch = MP_ARRAY_RANK - 2;
    full->n_batch = n_batch;
    for (int d = 0; d < n_batch; d++) {
        int in_a = d - (n_batch - p->a.n_batch), in_b = d - (n_batch - p->b.n_batch), in_c = d - (n_batch - c.n_batch);
        int64_t size_a = in_a < 0 ? 1 : p->a.batch[in_a], size_b = in_b < 0 ? 1 : p->b.batch[in_b];
        full->batch[d] = size_a > size_b ? size_a : size_b;
        full->batch_stride[d] = in_c < 0 ? 0 : c.batch_stride[in_c];
        if (full->batch[d] != (in_c < 0 ? 1 : c.batch[in_c])) sums = true;
    }
    if (!sums) return false;
    *to = mp_stack_array(&c, n_batch);
    *terms = mp_stack_array(full, n_batch);
    *terms = mp_array_plain(c.dtype, n_batch + 2, terms->dims);
    for (int d = 0; d < n_batch; d++) full->batch_stride[d] = terms->strides[d];
    full->row_stride = c.columns;
    full->column_stride = 1;
    return true;
}

mp_array mp_stack_array(const mp_stack *s, int n_batch)
{
    mp_array a = {.dtype = s->dtype, .rank = n_batch + 2};
    for (int d = 0; d < n_batch; d++) {
        int own = d - (n_batch - s->n_batch);
        a.dims[d] = own < 0 ? 1 : s->batch[own];
        a.strides[d] = own < 0 ? s->rows * s->columns : s->batch_stride[own];
    }
    a.dims[n_batch] = s->rows;
    a.strides[n_batch] = s->row_stride;
    a.dims[n_batch + 1] = s->columns;
    a.strides[n_batch + 1] = s->column_stride;
    return a;
}
