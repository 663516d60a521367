/* products.c - matrix products: stacks of matrices given by strides, multiplied by oneDNN.
 *
 * Y = A B, dA = dY B^T, dB = A^T dY: transpositions are strides, nothing is copied. A right factor without batch dimensions
 * multiplies all rows of the left one at once. Where an operand was broadcast over batch dimensions its gradient is computed
 * for each of them in the workspace and summed from there.
 */
#include "executor/cpu/products.h"

#include <string.h>

#include "executor/cpu/dnnl.h"
#include "executor/cpu/elementwise.h"
#include "executor/cpu/kernels.h"
#include "executor/stacks.h"

static mp_status describe(const mp_stack *given, int n_batch, dnnl_memory_desc_t *desc, const mp_operator *op, mp_error *err)
{
    mp_stack straight = *given, *s = &straight;
    mp_stack_straighten(s);
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
    return mp_dnnl_desc(&a, op, desc, err);
}

/* C = alpha A B (+ C): an operation of oneDNN. `bias`: one value per column, NULL: none. */
static mp_status multiply(const mp_stack *a, const mp_stack *b, const mp_stack *c, double alpha, const mp_array *bias, bool add,
                          const mp_operator *op, mp_dnnl_op *out, mp_error *err)
{
    mp_status st = MP_OK;
    dnnl_memory_desc_t ad, bd, cd, biasd;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_post_ops_t post = NULL;
    float scale = (float)alpha;
    int n_batch = c->n_batch;
    if (a->n_batch > n_batch) n_batch = a->n_batch;
    if (b->n_batch > n_batch) n_batch = b->n_batch;
    MP_TRY(describe(a, n_batch, &ad, op, err));
    MP_TRY(describe(b, n_batch, &bd, op, err));
    MP_TRY(describe(c, n_batch, &cd, op, err));
    if (bias) {
        mp_stack row = {.rows = 1, .columns = c->columns, .row_stride = c->columns, .column_stride = 1, .dtype = bias->dtype};
        MP_TRY(describe(&row, n_batch, &biasd, op, err));
    }
    MP_TRY(mp_dnnl_attr(&attr, err));
    if (scale != 1) MP_TRY(mp_dnnl_check(dnnl_primitive_attr_set_output_scales(attr, 1, 0, &scale), op, "a factor", err));
    if (add) {
        MP_TRY(mp_dnnl_check(dnnl_post_ops_create(&post), op, "adding", err));
        MP_TRY(mp_dnnl_check(dnnl_post_ops_append_sum(post, 1), op, "adding", err));
        MP_TRY(mp_dnnl_check(dnnl_primitive_attr_set_post_ops(attr, post), op, "adding", err));
    }
    MP_TRY(mp_dnnl_check(dnnl_matmul_desc_init(&matmul, &ad, &bd, bias ? &biasd : NULL, &cd), op, "the product", err));
    MP_TRY(mp_dnnl_check(dnnl_primitive_desc_create(&pd, &matmul, attr, mp_dnnl_engine(), NULL), op, "the product", err));
    MP_TRY(mp_dnnl_primitive(pd, op, out, err));
    MP_TRY(mp_dnnl_arg(out, DNNL_ARG_SRC, &ad, err));
    MP_TRY(mp_dnnl_arg(out, DNNL_ARG_WEIGHTS, &bd, err));
    MP_TRY(mp_dnnl_arg(out, DNNL_ARG_DST, &cd, err));
    if (bias) MP_TRY(mp_dnnl_arg(out, DNNL_ARG_BIAS, &biasd, err));
done:
    if (st != MP_OK) mp_dnnl_release(out);
    if (post) dnnl_post_ops_destroy(post);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

/* A product that may have to add to what is there, and may have to go through the workspace. */
typedef struct product {
    mp_dnnl_op write, add; /* add: prepared where it may be asked for */
    bool is_there, sums;   /* sums: its terms lie in the workspace, and are summed from there */
    bool turned;           /* computed as C^T = B^T A^T, because the library writes rows, and C's columns lie contiguously */
    mp_array terms;        /* their shape */
    int64_t terms_bytes;
} product;

typedef struct state {
    product forward, gradient[2];
    double beta;
    bool has_bias; /* handed to oneDNN */
    bool empty;    /* no elements to sum over: everything is zero */
} state;

static void release(mp_call *call)
{
    state *s = call->state;
    product *all[] = {&s->forward, &s->gradient[0], &s->gradient[1]};
    for (int k = 0; k < 3; k++) {
        mp_dnnl_release(&all[k]->write);
        mp_dnnl_release(&all[k]->add);
    }
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Prepares c = a b for a gradient: with `target` smaller than c where it was broadcast. */
static mp_status prepare_product(const mp_operands *x, product *p, const mp_stack *a, const mp_stack *b, mp_stack c,
                                 double alpha, bool may_add, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    int n_batch = most(a->n_batch, b->n_batch);
    p->is_there = true;
    mp_stack full = c;
    for (int d = 0; d < n_batch; d++) {
        int in_a = d - (n_batch - a->n_batch), in_b = d - (n_batch - b->n_batch), in_c = d - (n_batch - c.n_batch);
        int64_t size = most(in_a < 0 ? 1 : a->batch[in_a], in_b < 0 ? 1 : b->batch[in_b]);
        if (size != (in_c < 0 ? 1 : c.batch[in_c])) p->sums = true;
        full.batch[d] = size;
    }
    if (p->sums) {
        int64_t dims[MP_ARRAY_RANK];
        full.n_batch = n_batch;
        for (int d = 0; d < n_batch; d++) dims[d] = full.batch[d];
        dims[n_batch] = c.rows;
        dims[n_batch + 1] = c.columns;
        p->terms = mp_array_plain(c.dtype, n_batch + 2, dims);
        p->terms_bytes = rounded(mp_array_bytes(&p->terms));
        for (int d = 0; d < n_batch; d++) full.batch_stride[d] = p->terms.strides[d];
        full.row_stride = c.columns;
        full.column_stride = 1;
    }
    mp_stack left = *a, right = *b;
    mp_stack_straighten(&full);
    p->turned = full.row_stride == 1 && full.column_stride != 1;
    if (p->turned) {
        left = mp_stack_transposed(*b);
        right = mp_stack_transposed(*a);
        full = mp_stack_transposed(full);
    }
    MP_TRY(multiply(&left, &right, &full, alpha, NULL, false, x->op, &p->write, err));
    if (may_add && !p->sums) MP_TRY(multiply(&left, &right, &full, alpha, NULL, true, x->op, &p->add, err));
    call->workspace_bytes =
        most(call->workspace_bytes, p->terms_bytes + most(p->write.scratchpad_bytes, p->add.scratchpad_bytes));
done:
    return st;
}

static mp_status run_product(const product *p, const mp_operands *x, void *a, void *b, const mp_array *target,
                             const mp_stack *shape, bool add, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_dnnl_op *op = add && !p->sums ? &p->add : &p->write;
    mp_dnnl_address(op, p->turned ? DNNL_ARG_WEIGHTS : DNNL_ARG_SRC, a);
    mp_dnnl_address(op, p->turned ? DNNL_ARG_SRC : DNNL_ARG_WEIGHTS, b);
    mp_dnnl_address(op, DNNL_ARG_DST, p->sums ? x->workspace : target->data);
    MP_TRY(mp_dnnl_run(op, (char *)x->workspace + p->terms_bytes, x->op, err));
    if (p->sums) {
        mp_array terms = p->terms, to = {.dtype = target->dtype, .rank = shape->n_batch + 2, .data = target->data};
        terms.data = x->workspace;
        for (int d = 0; d < shape->n_batch; d++) {
            to.dims[d] = shape->batch[d];
            to.strides[d] = shape->batch_stride[d];
        }
        to.dims[shape->n_batch] = shape->rows;
        to.strides[shape->n_batch] = shape->row_stride;
        to.dims[shape->n_batch + 1] = shape->columns;
        to.strides[shape->n_batch + 1] = shape->column_stride;
        mp_sum_to(&terms, &to, 1, add);
    }
done:
    return st;
}

static void scale_row(const double *p, int64_t n, const float *const *in, float *out)
{
    for (int64_t k = 0; k < n; k++) out[k] = (float)p[0] * in[0][k];
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    const product *p = &s->forward;
    bool prefilled = x->n_in > 2 && x->in[2].dtype && !s->has_bias;
    (void)run;
    if (prefilled || s->empty) {
        const mp_array *in[] = {x->n_in > 2 && x->in[2].dtype ? &x->in[2] : &x->in[0]};
        double factor = prefilled ? s->beta : 0;
        if (prefilled) mp_elementwise(scale_row, &factor, in, 1, &x->out[0]);
        if (s->empty) {
            if (!prefilled) memset(x->out[0].data, 0, (size_t)mp_array_bytes(&x->out[0]));
            return MP_OK;
        }
    }
    const mp_dnnl_op *op = prefilled ? &p->add : &p->write;
    mp_dnnl_address(op, DNNL_ARG_SRC, x->in[0].data);
    mp_dnnl_address(op, DNNL_ARG_WEIGHTS, x->in[1].data);
    mp_dnnl_address(op, DNNL_ARG_DST, x->out[0].data);
    if (s->has_bias) mp_dnnl_address(op, DNNL_ARG_BIAS, x->in[2].data);
    return mp_dnnl_run(op, x->workspace, x->op, err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    mp_status st = MP_OK;
    const state *s = call->state;
    const mp_array *dy = &x->d_out[0];
    mp_factors f = mp_factors_read(x);
    (void)run;
    if (s->gradient[1].is_there)
        MP_TRY(
            run_product(&s->gradient[1], x, x->in[0].data, dy->data, &x->d_in[1], &f.b, x->adds & call->adds & MP_BIT(1), err));
    if (s->gradient[0].is_there)
        MP_TRY(
            run_product(&s->gradient[0], x, dy->data, x->in[1].data, &x->d_in[0], &f.a, x->adds & call->adds & MP_BIT(0), err));
    if (x->to > 2 && x->n_in > 2 && x->d_in[2].dtype)
        mp_sum_to(dy, &x->d_in[2], (float)s->beta, x->adds & call->adds & MP_BIT(2));
done:
    return st;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    state *s;
    mp_factors f = mp_factors_read(x);
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->release = release;
    s->beta = f.beta;
    if (!x->is_backward) {
        mp_stack a = f.a, y = f.y;
        call->run = run_forward;
        const mp_array *c = x->n_in > 2 && x->in[2].dtype ? &x->in[2] : NULL;
        s->has_bias = c && mp_factors_bias(c, &f);
        s->empty = !f.a.columns || !mp_array_elements(&x->out[0]);
        if (s->empty) goto done;
        if (mp_stack_is_single(&f.b) && mp_stack_fold(&a) && mp_stack_fold(&y)) f.a = a, f.y = y, f.b.n_batch = 0;
        if (c && !s->has_bias)
            MP_TRY(multiply(&f.a, &f.b, &f.y, f.alpha, NULL, true, x->op, &s->forward.add, err));
        else
            MP_TRY(multiply(&f.a, &f.b, &f.y, f.alpha, s->has_bias ? c : NULL, false, x->op, &s->forward.write, err));
        call->workspace_bytes = most(s->forward.add.scratchpad_bytes, s->forward.write.scratchpad_bytes);
        goto done;
    }
    call->run = run_backward;
    call->adds = x->adds;
    mp_stack bt = mp_stack_transposed(f.b), at = mp_stack_transposed(f.a);
    if (x->from < 1 && x->d_in[0].dtype) {
        mp_stack dy = f.y, da = f.a;
        bool folds = mp_stack_is_single(&f.b) && mp_stack_fold(&dy) && mp_stack_fold(&da);
        if (folds) bt.n_batch = 0;
        MP_TRY(prepare_product(x, &s->gradient[0], folds ? &dy : &f.y, &bt, folds ? da : f.a, f.alpha, x->adds & MP_BIT(0),
                               call, err));
    }
    if (x->from < 2 && x->to > 1 && x->d_in[1].dtype) {
        mp_stack dy = f.y, a = f.a, db = f.b;
        bool folds = mp_stack_is_single(&f.b) && mp_stack_fold(&dy) && mp_stack_fold(&a);
        if (folds) {
            at = mp_stack_transposed(a);
            db.n_batch = 0;
        }
        MP_TRY(prepare_product(x, &s->gradient[1], &at, folds ? &dy : &f.y, db, f.alpha, x->adds & MP_BIT(1), call, err));
    }
done:
    return st;
}

const mp_kernel mp_cpu_products[] = {
    {"MatMul", "", prepare, prepare},
    {"FusedMatMul", "com.microsoft", prepare, prepare},
    {"Gemm", "", prepare, prepare},
    {"Einsum", "", mp_prepare_einsum, mp_prepare_einsum},
    {0},
};
