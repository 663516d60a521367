/* blas_products.c - MatMul, FusedMatMul and Gemm with cublasLt.
 *
 * Y = A B, dA = dY B^T, dB = A^T dY. Transpositions are strides, so nothing is copied. If the right operand has no batch
 * dimensions, one product covers all rows of the left operand. If an operand was broadcast over batch dimensions, one gradient
 * per batch is computed in the workspace, and these gradients are summed. Accumulation uses the library's beta. The gradient
 * of a bias is computed together with dB, which reads all of dY anyway, or as a separate sum over the rows of dY. Which is
 * faster depends on the shape: with the bias, cublasLt may lack the algorithms that split sums. Both are therefore among the
 * algorithms of the node. The default is the common product, if cublasLt has an algorithm for it. */
#include "executor/cuda/vendor/blas_products.h"

#include <string.h>

#include "estimator/base/memory.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"
#include "executor/cuda/device/streams.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/cuda/vendor/blas_matmul.h"
#include "executor/operators/elementwise/elementwise_cuda.h"

/* A matrix product. It may accumulate into its result, or write the terms of a sum to the workspace. */
typedef struct product {
    mp_blas_matmul matmul;
    /* is_there: true if the product is needed; sums: true if the product writes terms to the workspace, which another kernel
     * sums */
    bool is_there, sums;
    /* terms: the product's result in the workspace, if a kernel must sum it; to: the result of the summation. Both have the
     * same rank */
    mp_array terms, to;
    int64_t terms_bytes;
    /* true: the product also computes the gradient of the bias. If that gradient must be accumulated, it is first written to
     * the workspace */
    bool gives_bias;
    int64_t bias_at;
} product;

typedef struct state {
    product forward, gradient[2];
    double beta;
    /* has_bias: true if cublasLt adds the bias, the third operand C; prefilled: true if C is copied to the output before the
     * product */
    bool has_bias, prefilled;
    bool empty; /* true: the summed dimension has size 0, so the product is zero */
} state;

static void release(mp_call *call)
{
    state *s = call->state;
    mp_blas_matmul_release(&s->forward.matmul);
    mp_blas_matmul_release(&s->gradient[0].matmul);
    mp_blas_matmul_release(&s->gradient[1].matmul);
}

static bool wants_bias(const mp_operands *x)
{
    return x->to > 2 && x->n_in > 2 && x->d_in[2].dtype;
}

static void want(mp_call *call, int64_t bytes)
{
    if (bytes > call->workspace_bytes) call->workspace_bytes = bytes;
}

/* The ending of names of algorithms that compute the gradient of the bias as a separate sum. */
static const char apart[] = ", bias apart";

/* Returns the length of an algorithm's name without the ending `apart`; *is_apart: the name has this ending. */
static size_t name_length(const char *name, bool *is_apart)
{
    const size_t length = name ? strlen(name) : 0, end = sizeof apart - 1;
    *is_apart = length >= end && !strcmp(name + length - end, apart);
    return *is_apart ? length - end : length;
}

/* Replaces the default algorithm of a product by the one that x->algorithm names, if it names one. */
static mp_status take(const mp_operands *x, mp_blas_matmul *m, mp_error *err)
{
    bool unused;
    const size_t length = name_length(x->algorithm, &unused);
    return length ? mp_blas_matmul_take(m, x->algorithm, length, err) : MP_OK;
}

/* Prepares the gradient of operand `factor` (0: A, 1: B), if possible together with the gradient of the bias. bias NULL: no
 * bias gradient is needed. */
static mp_status prepare_gradient(const mp_operands *x, product *p, const mp_factors *f, int factor, const mp_array *bias,
                                  mp_call *call, mp_error *err)
{
    bool is_apart;
    (void)name_length(x->algorithm, &is_apart);
    mp_stacks stacks = mp_factors_gradient(f, factor);
    p->is_there = true;
    p->sums = mp_stacks_spread(&stacks, &p->terms, &p->to);
    if (p->sums) {
        /* the size is rounded up to a multiple of 256, the alignment of cublasLt's workspace */
        p->terms_bytes = (mp_array_bytes(&p->terms) + 255) / 256 * 256;
        want(call, p->terms_bytes + mp_cuda_sum_workspace_bytes(&p->terms, &p->to));
    }
    p->gives_bias =
        bias && !is_apart && !p->sums && bias->dtype == stacks.c.dtype && mp_factors_bias(bias, f) &&
        mp_blas_matmul_prepare(&stacks.a, &stacks.b, &stacks.c, f->alpha, 0, MP_BLAS_BIAS_GRADIENT, &p->matmul, NULL) == MP_OK;
    if (!p->gives_bias) {
        mp_blas_matmul_release(&p->matmul);
        MP_CHECK(mp_blas_matmul_prepare(&stacks.a, &stacks.b, &stacks.c, f->alpha, 0, MP_BLAS_NO_BIAS, &p->matmul, err));
    }
    MP_CHECK(take(x, &p->matmul, err));
    p->bias_at = (p->terms_bytes + p->matmul.workspace_bytes + 63) / 64 * 64;
    want(call, p->bias_at + (p->gives_bias && (call->adds & MP_BIT(2)) ? mp_array_bytes(bias) : 0));
    return MP_OK;
}

static mp_status run_gradient(const product *p, const mp_operands *x, int factor, const void *a, const void *b, uint64_t adds,
                              mp_error *err)
{
    mp_blas_matmul m = p->matmul;
    char *room = (char *)x->workspace + p->terms_bytes, *bias_room = (char *)x->workspace + p->bias_at;
    void *to = x->d_in[factor].data, *bias = p->gives_bias ? x->d_in[2].data : NULL;
    bool add = adds & MP_BIT(factor), add_bias = p->gives_bias && (adds & MP_BIT(2));
    m.beta = add && !p->sums ? 1 : 0;
    MP_CHECK(mp_blas_matmul_run(&m, a, b, p->sums ? x->workspace : to, add_bias ? bias_room : bias, room, err));
    /* adds the new bias gradient to the bias gradient of earlier nodes. This is a sum of one term per output, so it needs no
     * workspace */
    if (add_bias) {
        mp_array terms = x->d_in[2];
        terms.data = bias_room;
        mp_cuda_sum_to(&terms, &x->d_in[2], 1, true, NULL);
    }
    if (p->sums) {
        mp_array terms = p->terms, target = p->to;
        terms.data = x->workspace;
        target.data = to;
        mp_cuda_sum_to(&terms, &target, 1, add, room);
    }
    return MP_OK;
}

/* Before the product: sets the output y to beta * c, or to zero if operand c is absent. */
static mp_status prefill(const state *s, const mp_operands *x, mp_error *err)
{
    const mp_array *y = &x->out[0], *c[] = {x->n_in > 2 ? &x->in[2] : NULL};
    double factor[MP_FORMULA_PARAMETERS] = {s->beta};
    if (!s->prefilled)
        return mp_cuda_error(cudaMemsetAsync(y->data, 0, (size_t)mp_array_bytes(y), mp_cuda_stream()), "cudaMemsetAsync", err);
    mp_cuda_floats(MP_FORMULA_scale, factor, c, 1, y);
    return MP_OK;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    if (s->prefilled || s->empty) MP_CHECK(prefill(s, x, err));
    if (!s->empty)
        MP_CHECK(mp_blas_matmul_run(&s->forward.matmul, x->in[0].data, x->in[1].data, x->out[0].data,
                                    s->has_bias ? x->in[2].data : NULL, x->workspace, err));
    return mp_cuda_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    const mp_array *dy = &x->d_out[0];
    uint64_t adds = x->adds & call->adds;
    if (s->gradient[1].is_there) MP_CHECK(run_gradient(&s->gradient[1], x, 1, x->in[0].data, dy->data, adds, err));
    if (s->gradient[0].is_there) MP_CHECK(run_gradient(&s->gradient[0], x, 0, dy->data, x->in[1].data, adds, err));
    if (wants_bias(x) && !s->gradient[1].gives_bias)
        mp_cuda_sum_to(dy, &x->d_in[2], (float)s->beta, adds & MP_BIT(2), x->workspace);
    return mp_cuda_launched(err);
}

static mp_status prepare_forward(const mp_operands *x, mp_factors f, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    state *s = call->state;
    const mp_array *c = x->n_in > 2 && x->in[2].dtype ? &x->in[2] : NULL;
    const mp_stacks p = mp_factors_forward(&f);
    call->run = run_forward;
    s->empty = !f.a.columns || !mp_array_elements(&x->out[0]);
    s->has_bias = c && !s->empty && mp_factors_bias(c, &f);
    s->prefilled = c && !s->has_bias;
    if (s->empty) return st;
    st = mp_blas_matmul_prepare(&p.a, &p.b, &p.c, f.alpha, s->prefilled, s->has_bias ? MP_BLAS_BIAS : MP_BLAS_NO_BIAS,
                                &s->forward.matmul, s->has_bias ? NULL : err);
    if (st != MP_OK &&
        s->has_bias) { /* cublasLt has no algorithm that adds the bias, so the bias is copied to the output first */
        mp_blas_matmul_release(&s->forward.matmul);
        s->has_bias = false;
        s->prefilled = true;
        st = mp_blas_matmul_prepare(&p.a, &p.b, &p.c, f.alpha, 1, MP_BLAS_NO_BIAS, &s->forward.matmul, err);
    }
    MP_CHECK(st);
    MP_CHECK(take(x, &s->forward.matmul, err));
    want(call, s->forward.matmul.workspace_bytes);
    return MP_OK;
}

static mp_status prepare_backward(const mp_operands *x, mp_factors f, mp_call *call, mp_error *err)
{
    state *s = call->state;
    call->run = run_backward;
    call->adds = x->adds;
    const mp_array *bias = wants_bias(x) ? &x->d_in[2] : NULL;
    if (x->from < 1 && x->d_in[0].dtype) MP_CHECK(prepare_gradient(x, &s->gradient[0], &f, 0, NULL, call, err));
    if (x->from < 2 && x->to > 1 && x->d_in[1].dtype) MP_CHECK(prepare_gradient(x, &s->gradient[1], &f, 1, bias, call, err));
    if (bias) want(call, mp_cuda_sum_workspace_bytes(&x->d_out[0], &x->d_in[2]));
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_error why = {0};
    state *s;
    if (x->in[0].dtype != MP_DTYPE_FLOAT && x->in[0].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->release = release;
    mp_factors f = mp_factors_read(x);
    s->beta = f.beta;
    const mp_status st = x->is_backward ? prepare_backward(x, f, call, &why) : prepare_forward(x, f, call, &why);
    MP_ENSURE(st == MP_OK, err, st, "%s ('%s'): %s", x->op->kind, x->op->name, why.message);
    return MP_OK;
}

/* Lists the algorithms of a call that was prepared without naming one. `ending` is appended to each name. */
static mp_status list(const mp_operands *x, const mp_call *call, const char *ending, int most, mp_algorithms *out,
                      mp_error *err)
{
    const state *s = call->state;
    const product *gradient = &s->gradient[s->gradient[1].is_there];
    /* one name would not describe two products, and a node without a product has no algorithm */
    if (x->is_backward ? s->gradient[0].is_there == s->gradient[1].is_there : s->empty) return MP_OK;
    return mp_blas_matmul_list(x->is_backward ? &gradient->matmul : &s->forward.matmul, ending, most, out, err);
}

mp_status mp_cuda_product_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err)
{
    const mp_kernel *table = mp_cuda_products;
    MP_CLEARED_BY(mp_call_release) mp_call call = {0}, other = {0};
    mp_operands separate = *x;
    if (!mp_kernel_find(&table, 1, x->op)) return MP_OK;
    MP_CHECK(prepare(x, &call, err));
    const bool gives_bias = ((const state *)call.state)->gradient[1].gives_bias;
    MP_CHECK(list(x, &call, "", gives_bias ? MP_ALGORITHMS / 2 : MP_ALGORITHMS, out, err));
    if (!gives_bias) return MP_OK;
    separate.algorithm = apart;
    MP_CHECK(prepare(&separate, &other, err));
    return list(x, &other, apart, MP_ALGORITHMS, out, err);
}

const mp_kernel mp_cuda_products[] = {
    {"MatMul", "", prepare, prepare},
    {"FusedMatMul", "com.microsoft", prepare, prepare},
    {"FusedMatMul", "memplan", prepare, prepare},
    {"Gemm", "", prepare, prepare},
    {0},
};
