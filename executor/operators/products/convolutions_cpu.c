/* convolutions_cpu.c - Conv and ConvTranspose on oneDNN. Operands that lie in another layout than the implementation wants are
 * reordered through the workspace. */
#include "executor/operators/products/convolutions_cpu.h"

#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/elementwise/broadcast_sum_cpu.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/products/convolution_cpu.h"

/* One operand of a pass: used where it lies, or through a copy in the workspace. */
typedef struct passage {
    int arg;
    bool is_result;
    mp_dnnl_op reorder; /* without a primitive: none is needed */
    int64_t at, bytes;  /* of the copy, in the workspace */
} passage;

typedef struct pass {
    mp_dnnl_op op;
    passage src, weights, dst;
    int64_t reorder_scratch, scratch_at, workspace_bytes;
    bool is_there;
} pass;

typedef struct state {
    pass forward, data, weights;
    bool only_bias; /* the bias's gradient without the weights' */
} state;

static void release_pass(pass *p)
{
    mp_dnnl_release(&p->op);
    mp_dnnl_release(&p->src.reorder);
    mp_dnnl_release(&p->weights.reorder);
    mp_dnnl_release(&p->dst.reorder);
}

static void release(mp_call *call)
{
    state *s = call->state;
    release_pass(&s->forward);
    release_pass(&s->data);
    release_pass(&s->weights);
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Prepares an operand: `has` is how it lies, `wants` what the implementation takes. */
static mp_status prepare_passage(pass *p, passage *o, int arg, bool is_result, const dnnl_memory_desc_t *has,
                                 const dnnl_memory_desc_t *wants, const mp_operator *op, mp_error *err)
{
    *o = (passage){.arg = arg, .is_result = is_result};
    MP_CHECK(mp_dnnl_arg(&p->op, arg, wants, err));
    if (dnnl_memory_desc_equal(has, wants)) return MP_OK;
    MP_CHECK(mp_dnnl_reorder(is_result ? wants : has, is_result ? has : wants, op, &o->reorder, err));
    o->at = p->workspace_bytes;
    o->bytes = rounded((int64_t)dnnl_memory_desc_get_size(wants));
    p->workspace_bytes += o->bytes;
    if (o->reorder.scratchpad_bytes > p->reorder_scratch) p->reorder_scratch = o->reorder.scratchpad_bytes;
    return MP_OK;
}

static const dnnl_memory_desc_t *query(const_dnnl_primitive_desc_t desc, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(desc, what, 0);
}

/* `algorithm` NULL: the best. */
static mp_status prepare_pass(pass *p, const mp_convolution *c, mp_convolution_pass which, const char *algorithm, mp_error *err)
{
    MP_OWNED_BY(dnnl_primitive_desc_destroy) dnnl_primitive_desc_t desc = NULL;
    bool data = which == MP_CONVOLVE_DATA, weights = which == MP_CONVOLVE_WEIGHTS;
    MP_CHECK(algorithm ? mp_convolution_named(c, which, algorithm, &desc, err) : mp_convolution_best(c, which, &desc, err));
    MP_CHECK(mp_dnnl_primitive(desc, c->op, &p->op, err));
    MP_CHECK(prepare_passage(p, &p->src, data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, data, &c->src,
                             query(desc, data ? dnnl_query_diff_src_md : dnnl_query_src_md), c->op, err));
    MP_CHECK(prepare_passage(p, &p->weights, weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, weights, &c->weights,
                             query(desc, weights ? dnnl_query_diff_weights_md : dnnl_query_weights_md), c->op, err));
    MP_CHECK(prepare_passage(
        p, &p->dst, which == MP_CONVOLVE_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, which == MP_CONVOLVE_FORWARD, &c->dst,
        query(desc, which == MP_CONVOLVE_FORWARD ? dnnl_query_dst_md : dnnl_query_diff_dst_md), c->op, err));
    if (c->has_bias && !data) MP_CHECK(mp_dnnl_arg(&p->op, weights ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS, &c->bias, err));
    p->scratch_at = p->workspace_bytes;
    p->workspace_bytes += p->op.scratchpad_bytes > p->reorder_scratch ? p->op.scratchpad_bytes : p->reorder_scratch;
    p->is_there = true;
    return MP_OK;
}

/* Brings an operand to where the primitive reads or writes it. */
static mp_status enter(const pass *p, const passage *o, void *data, const mp_operands *x, mp_error *err)
{
    char *copy = (char *)x->workspace + o->at;
    if (!o->reorder.primitive) {
        mp_dnnl_address(&p->op, o->arg, data);
        return MP_OK;
    }
    mp_dnnl_address(&p->op, o->arg, copy);
    if (o->is_result) return MP_OK;
    mp_dnnl_address(&o->reorder, DNNL_ARG_FROM, data);
    mp_dnnl_address(&o->reorder, DNNL_ARG_TO, copy);
    return mp_dnnl_run(&o->reorder, (char *)x->workspace + p->scratch_at, x->op, err);
}

static mp_status leave(const pass *p, const passage *o, void *data, const mp_operands *x, mp_error *err)
{
    if (!o->reorder.primitive || !o->is_result) return MP_OK;
    mp_dnnl_address(&o->reorder, DNNL_ARG_FROM, (char *)x->workspace + o->at);
    mp_dnnl_address(&o->reorder, DNNL_ARG_TO, data);
    return mp_dnnl_run(&o->reorder, (char *)x->workspace + p->scratch_at, x->op, err);
}

static mp_status run_pass(const pass *p, const mp_operands *x, void *src, void *weights, void *dst, int bias_arg, void *bias,
                          mp_error *err)
{
    MP_CHECK(enter(p, &p->src, src, x, err));
    MP_CHECK(enter(p, &p->weights, weights, x, err));
    MP_CHECK(enter(p, &p->dst, dst, x, err));
    if (bias_arg) mp_dnnl_address(&p->op, bias_arg, bias);
    MP_CHECK(mp_dnnl_run(&p->op, (char *)x->workspace + p->scratch_at, x->op, err));
    MP_CHECK(leave(p, &p->src, src, x, err));
    MP_CHECK(leave(p, &p->weights, weights, x, err));
    return leave(p, &p->dst, dst, x, err);
}

static bool has_bias(const mp_operands *x)
{
    return x->n_in > 2 && x->in[2].dtype != MP_DTYPE_UNDEFINED;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    return run_pass(&s->forward, x, x->in[0].data, x->in[1].data, x->out[0].data, has_bias(x) ? DNNL_ARG_BIAS : 0,
                    has_bias(x) ? x->in[2].data : NULL, err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    void *dy = x->d_out[0].data;
    bool bias = x->to > 2 && x->n_in > 2 && x->d_in[2].dtype;
    if (s->weights.is_there)
        MP_CHECK(run_pass(&s->weights, x, x->in[0].data, x->d_in[1].data, dy, bias ? DNNL_ARG_DIFF_BIAS : 0,
                          bias ? x->d_in[2].data : NULL, err));
    if (s->only_bias) {
        mp_array channels = x->d_out[0], to = x->d_in[2];
        to.rank = channels.rank - 1;
        for (int d = 1; d < to.rank; d++) to.dims[d] = 1;
        mp_cpu_sum_to(&channels, &to, 1, false);
    }
    if (s->data.is_there) MP_CHECK(run_pass(&s->data, x, x->d_in[0].data, x->in[1].data, dy, 0, NULL, err));
    return MP_OK;
}

/* What is computed: which passes over the convolution. */
typedef struct work {
    mp_convolution convolution;
    bool forward, data, weights, only_bias;
} work;

static mp_status read_work(const mp_operands *x, work *w, mp_error *err)
{
    const mp_array *y = x->is_backward ? &x->d_out[0] : &x->out[0];
    bool bias = x->is_backward ? x->to > 2 && x->n_in > 2 && x->d_in[2].dtype : has_bias(x);
    *w = (work){.forward = !x->is_backward};
    w->weights = x->is_backward && x->from < 2 && x->to > 1 && x->d_in[1].dtype;
    w->data = x->is_backward && x->from < 1 && x->d_in[0].dtype;
    w->only_bias = bias && x->is_backward && !w->weights;
    return mp_convolution_read(x->model, x->op, &x->in[0], &x->in[1], y, bias ? &x->in[2] : NULL, &w->convolution, err);
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    work w;
    MP_STATE(state, s, call, err);
    call->release = release;
    call->run = x->is_backward ? run_backward : run_forward;
    MP_CHECK(read_work(x, &w, err));
    s->only_bias = w.only_bias;
    if (w.forward) MP_CHECK(prepare_pass(&s->forward, &w.convolution, MP_CONVOLVE_FORWARD, x->algorithm, err));
    if (w.weights) MP_CHECK(prepare_pass(&s->weights, &w.convolution, MP_CONVOLVE_WEIGHTS, x->algorithm, err));
    if (w.data) MP_CHECK(prepare_pass(&s->data, &w.convolution, MP_CONVOLVE_DATA, x->algorithm, err));
    const pass *all[] = {&s->forward, &s->weights, &s->data};
    for (int k = 0; k < 3; k++)
        if (all[k]->workspace_bytes > call->workspace_bytes) call->workspace_bytes = all[k]->workspace_bytes;
    return MP_OK;
}

mp_status mp_cpu_algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err)
{
    const mp_kernel *table = mp_cpu_convolutions;
    work w;
    (void)self;
    out->n = 0;
    if (!mp_kernel_find(&table, 1, x->op)) return MP_OK;
    MP_CHECK(read_work(x, &w, err));
    if (w.forward + w.weights + w.data != 1) return MP_OK; /* a name would be for two passes */
    MP_CHECK(mp_convolution_algorithms(&w.convolution,
                                       w.forward   ? MP_CONVOLVE_FORWARD
                                       : w.weights ? MP_CONVOLVE_WEIGHTS
                                                   : MP_CONVOLVE_DATA,
                                       out, err));
    return MP_OK;
}

const mp_kernel mp_cpu_convolutions[] = {
    {"Conv", "", prepare, prepare},
    {"ConvTranspose", "", prepare, prepare},
    {0},
};
