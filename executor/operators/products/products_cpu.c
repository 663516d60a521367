/* products_cpu.c - matrix products: stacks of matrices given by strides, multiplied by oneDNN.
 *
 * Y = A B, dA = dY B^T, dB = A^T dY. Transpositions are strides, so nothing is copied. If the right operand has no batch
 * dimensions, one product covers all rows of the left operand. If an operand was broadcast over batch dimensions, one gradient
 * per batch is computed in the workspace, and these gradients are summed. */
#include "executor/operators/products/products_cpu.h"

#include <string.h>

#include "estimator/base/integers.h"
#include "executor/cpu/base/dnnl.h"
#include "executor/cpu/base/families.h"
#include "executor/operators/elementwise/elementwise_cpu.h"

static mp_status describe(const mp_stack *given, int n_batch, dnnl_memory_desc_t *desc, const mp_operator *op, mp_error *err)
{
    mp_stack straight = *given, *s = &straight;
    mp_stack_straighten(s);
    mp_array a = mp_stack_array(s, n_batch);
    return mp_dnnl_desc(&a, op, desc, err);
}

mp_status mp_dnnl_matmul(const mp_stack *a, const mp_stack *b, const mp_stack *c, double alpha, const mp_array *bias, bool add,
                         const mp_operator *op, mp_dnnl_op *out, mp_error *err)
{
    dnnl_memory_desc_t ad, bd, cd, biasd;
    dnnl_matmul_desc_t matmul;
    MP_OWNED_BY(dnnl_primitive_attr_destroy) dnnl_primitive_attr_t attr = NULL;
    MP_OWNED_BY(dnnl_primitive_desc_destroy) dnnl_primitive_desc_t pd = NULL;
    MP_OWNED_BY(dnnl_post_ops_destroy) dnnl_post_ops_t post = NULL;
    MP_CLEARED_BY(mp_dnnl_release) mp_dnnl_op made = {0};
    float scale = (float)alpha;
    int n_batch = c->n_batch;
    if (a->n_batch > n_batch) n_batch = a->n_batch;
    if (b->n_batch > n_batch) n_batch = b->n_batch;
    MP_CHECK(describe(a, n_batch, &ad, op, err));
    MP_CHECK(describe(b, n_batch, &bd, op, err));
    MP_CHECK(describe(c, n_batch, &cd, op, err));
    if (bias) {
        mp_stack row = {.rows = 1, .columns = c->columns, .row_stride = c->columns, .column_stride = 1, .dtype = bias->dtype};
        MP_CHECK(describe(&row, n_batch, &biasd, op, err));
    }
    MP_CHECK(mp_dnnl_attr(&attr, err));
    if (scale != 1) MP_CHECK(MP_DNNL_PREPARED(dnnl_primitive_attr_set_output_scales(attr, 1, 0, &scale), op, "a factor", err));
    if (add) {
        MP_CHECK(MP_DNNL_PREPARED(dnnl_post_ops_create(&post), op, "adding", err));
        MP_CHECK(MP_DNNL_PREPARED(dnnl_post_ops_append_sum(post, 1), op, "adding", err));
        MP_CHECK(MP_DNNL_PREPARED(dnnl_primitive_attr_set_post_ops(attr, post), op, "adding", err));
    }
    MP_CHECK(mp_dnnl_check(dnnl_matmul_desc_init(&matmul, &ad, &bd, bias ? &biasd : NULL, &cd), op, "the product", err));
    MP_CHECK(MP_DNNL_PREPARED(dnnl_primitive_desc_create(&pd, &matmul, attr, mp_dnnl_engine(), NULL), op, "the product", err));
    MP_CHECK(mp_dnnl_primitive(pd, op, &made, err));
    MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_SRC, &ad, err));
    MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_WEIGHTS, &bd, err));
    MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_DST, &cd, err));
    if (bias) MP_CHECK(mp_dnnl_arg(&made, DNNL_ARG_BIAS, &biasd, err));
    *out = made;
    made = (mp_dnnl_op){0};
    return MP_OK;
}

/* A matrix product. It may accumulate into its result, or write the terms of a sum to the workspace. */
typedef struct product {
    mp_dnnl_op write,
        /* write: the operation that overwrites the result; add: the operation that accumulates into it, prepared only if
         * needed */
        add;
    /* is_there: true if the product is needed; sums: true if the product writes terms to the workspace, which are summed
     * afterwards */
    bool is_there, sums;
    bool turned; /* true: computed as C^T = B^T A^T, because the library writes contiguous rows and C has contiguous columns */
    mp_array terms, to; /* terms: the product's result, if it has to be summed; to: the result of that sum, of the same rank */
    int64_t terms_bytes;
} product;

typedef struct state {
    product forward, gradient[2];
    double beta;
    bool has_bias; /* true: oneDNN adds operand 2 as a bias */
    bool empty;    /* true: the summed dimension has size 0, so the product is zero */
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

static int64_t rounded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Prepares the gradient of operand `factor` (0: A, 1: B) of a matrix product. */
static mp_status prepare_gradient(const mp_operands *x, product *p, const mp_factors *f, int factor, mp_call *call,
                                  mp_error *err)
{
    mp_stacks stacks = mp_factors_gradient(f, factor);
    p->is_there = true;
    p->sums = mp_stacks_spread(&stacks, &p->terms, &p->to);
    if (p->sums) p->terms_bytes = rounded(mp_array_bytes(&p->terms));
    mp_stack left = stacks.a, right = stacks.b, full = stacks.c;
    mp_stack_straighten(&full);
    p->turned = full.row_stride == 1 && full.column_stride != 1;
    if (p->turned) {
        left = mp_stack_transposed(stacks.b);
        right = mp_stack_transposed(stacks.a);
        full = mp_stack_transposed(full);
    }
    MP_CHECK(mp_dnnl_matmul(&left, &right, &full, f->alpha, NULL, false, x->op, &p->write, err));
    if ((x->adds & MP_BIT(factor)) && !p->sums)
        MP_CHECK(mp_dnnl_matmul(&left, &right, &full, f->alpha, NULL, true, x->op, &p->add, err));
    call->workspace_bytes =
        mp_larger(call->workspace_bytes, p->terms_bytes + mp_larger(p->write.scratchpad_bytes, p->add.scratchpad_bytes));
    return MP_OK;
}

static mp_status run_gradient(const product *p, const mp_operands *x, void *a, void *b, void *target, bool add, mp_error *err)
{
    const mp_dnnl_op *op = add && !p->sums ? &p->add : &p->write;
    mp_dnnl_address(op, p->turned ? DNNL_ARG_WEIGHTS : DNNL_ARG_SRC, a);
    mp_dnnl_address(op, p->turned ? DNNL_ARG_SRC : DNNL_ARG_WEIGHTS, b);
    mp_dnnl_address(op, DNNL_ARG_DST, p->sums ? x->workspace : target);
    MP_CHECK(mp_dnnl_run(op, (char *)x->workspace + p->terms_bytes, x->op, err));
    if (p->sums) {
        mp_array terms = p->terms, to = p->to;
        terms.data = x->workspace;
        to.data = target;
        mp_cpu_sum_to(&terms, &to, 1, add);
    }
    return MP_OK;
}

static void scale_row(const double *p, int64_t n, const float *const *in, float *out)
{
    for (int64_t k = 0; k < n; k++) out[k] = (float)p[0] * in[0][k];
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    const product *p = &s->forward;
    bool prefilled = x->n_in > 2 && x->in[2].dtype && !s->has_bias;
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

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    const mp_array *dy = &x->d_out[0];
    uint64_t adds = x->adds & call->adds;
    if (s->gradient[1].is_there)
        MP_CHECK(run_gradient(&s->gradient[1], x, x->in[0].data, dy->data, x->d_in[1].data, adds & MP_BIT(1), err));
    if (s->gradient[0].is_there)
        MP_CHECK(run_gradient(&s->gradient[0], x, dy->data, x->in[1].data, x->d_in[0].data, adds & MP_BIT(0), err));
    if (x->to > 2 && x->n_in > 2 && x->d_in[2].dtype) mp_cpu_sum_to(dy, &x->d_in[2], (float)s->beta, adds & MP_BIT(2));
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_factors f = mp_factors_read(x);
    MP_STATE(state, s, call, err);
    call->release = release;
    s->beta = f.beta;
    if (!x->is_backward) {
        const mp_stacks p = mp_factors_forward(&f);
        call->run = run_forward;
        const mp_array *c = x->n_in > 2 && x->in[2].dtype ? &x->in[2] : NULL;
        s->has_bias = c && mp_factors_bias(c, &f);
        s->empty = !f.a.columns || !mp_array_elements(&x->out[0]);
        if (s->empty) return MP_OK;
        if (c && !s->has_bias)
            MP_CHECK(mp_dnnl_matmul(&p.a, &p.b, &p.c, f.alpha, NULL, true, x->op, &s->forward.add, err));
        else
            MP_CHECK(mp_dnnl_matmul(&p.a, &p.b, &p.c, f.alpha, s->has_bias ? c : NULL, false, x->op, &s->forward.write, err));
        call->workspace_bytes = mp_larger(s->forward.add.scratchpad_bytes, s->forward.write.scratchpad_bytes);
        return MP_OK;
    }
    call->run = run_backward;
    call->adds = x->adds;
    if (x->from < 1 && x->d_in[0].dtype) MP_CHECK(prepare_gradient(x, &s->gradient[0], &f, 0, call, err));
    if (x->from < 2 && x->to > 1 && x->d_in[1].dtype) MP_CHECK(prepare_gradient(x, &s->gradient[1], &f, 1, call, err));
    return MP_OK;
}

const mp_kernel mp_cpu_products[] = {
    {"MatMul", "", prepare, prepare},
    {"FusedMatMul", "com.microsoft", prepare, prepare},
    {"FusedMatMul", "memplan", prepare, prepare},
    {"Gemm", "", prepare, prepare},
    {0},
};
