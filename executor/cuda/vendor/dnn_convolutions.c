/* dnn_convolutions.c - Conv and ConvTranspose with cuDNN.
 *
 * ConvTranspose computes the data gradient of a convolution. For ConvTranspose, forward and data gradient are therefore
 * exchanged, and input and output change places in the filter gradient. Operands keep their layout. The convolution's engine
 * adds the bias if cuDNN has such an engine, else a separate kernel does. The gradient of the bias is a separate sum. The
 * engine accumulates a gradient if cuDNN has such an engine, else mp_call_run does. */
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/cuda/vendor/dnn_convolutions.h"
#include "executor/cuda/vendor/dnn_graph.h"
#include "executor/operators/elementwise/elementwise_cuda.h"
#include "executor/operators/pooling/sliding.h"

enum { FORWARD, WEIGHTS, DATA, N_PASSES, RANK = 4 }; /* RANK: minimum rank of the tensors that cuDNN accepts */

typedef struct state {
    const mp_dnn_plan *plans[N_PASSES];  /* engine of each pass; NULL: the pass is not needed */
    const mp_dnn_plan *adding[N_PASSES]; /* engine of each pass that accumulates into its result; NULL: accumulation is not
                                            needed, or no engine supports it */
    bool bias_apart;                     /* true: in forward, a separate kernel adds the bias after the convolution */
} state;

/* Returns the padding at the end of a dimension. cuDNN rounds the number of windows down, so several paddings give the same
 * windows. If possible, the result equals the padding at the start, because most engines require equal padding on both sides.
 */
static int64_t pad_behind(const mp_sliding *s, int d)
{
    int64_t least = s->end[d] > 0 ? s->end[d] : 0, most = s->end[d] + s->stride[d] - 1;
    return s->begin[d] < least ? least : s->begin[d] > most ? most : s->begin[d];
}

static void set_window(mp_dnn_operation *o, const mp_sliding *s)
{
    int more = RANK - 2 > s->n ? RANK - 2 - s->n : 0;
    o->n = s->n + more;
    for (int d = 0; d < o->n; d++) {
        bool real = d >= more;
        o->stride[d] = real ? s->stride[d - more] : 1;
        o->dilation[d] = real ? s->dilation[d - more] : 1;
        o->begin[d] = real ? s->begin[d - more] : 0;
        o->end[d] = real ? pad_behind(s, d - more) : 0;
    }
}

/* Describes the cuDNN graph of one pass. bias NULL: no bias is added; adds: the pass accumulates into its result. x and y
 * are activations or their gradients, depending on the pass. */
static void describe(mp_dnn_graph *g, int pass, const mp_sliding *s, const mp_array *x, const mp_array *w, const mp_array *y,
                     const mp_array *bias, bool adds)
{
    /* operands of each pass in the order of cuDNN's convolution; the last one is the result of the pass */
    const mp_array *of[N_PASSES][3] = {{x, w, y}, {x, y, w}, {y, w, x}};
    const mp_array *turned[N_PASSES][3] = {{x, w, y}, {y, x, w}, {y, w, x}};
    static const mp_dnn_kind kinds[2][N_PASSES] = {{MP_DNN_CONVOLVE, MP_DNN_CONVOLVE_FILTER, MP_DNN_CONVOLVE_DATA},
                                                   {MP_DNN_CONVOLVE_DATA, MP_DNN_CONVOLVE_FILTER, MP_DNN_CONVOLVE}};
    const mp_array *const *operands = s->is_transposed ? turned[pass] : of[pass];
    int ids[3];
    memset(g, 0, sizeof *g);
    for (int i = 0; i < 3; i++) ids[i] = mp_dnn_array_add(g, operands[i], RANK);
    int k = mp_dnn_operation_add(g, kinds[s->is_transposed][pass], 0, ids, 3);
    set_window(&g->operations[k], s);
    g->operations[k].adds = adds;
    if (!bias) return;
    int64_t channels = y->dims[1], rank = g->tensors[ids[2]].rank;
    int b = mp_dnn_channels_add(g, mp_dnn_type(bias->dtype), (int)rank, channels), out = mp_dnn_array_add(g, y, RANK);
    g->tensors[ids[2]].is_virtual = 1;
    g->tensors[ids[2]].type = CUDNN_DATA_FLOAT;
    mp_dnn_operation_add(g, MP_DNN_POINTWISE, CUDNN_POINTWISE_ADD, (int[]){ids[2], b, out}, 3);
}

/* Describes a bias, one value per channel, as an array that is broadcast to the shape of y. */
static mp_array per_channel(const mp_array *bias, const mp_array *y)
{
    mp_array a = {.data = bias->data, .dtype = bias->dtype, .rank = y->rank - 1};
    for (int d = 0; d < a.rank; d++) {
        a.dims[d] = d ? 1 : y->dims[1];
        a.strides[d] = d ? y->dims[1] : 1;
    }
    return a;
}

static bool has_bias(const mp_operands *x)
{
    return x->n_in > 2 && x->in[2].dtype != MP_DTYPE_UNDEFINED;
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    bool bias = has_bias(x);
    void *addresses[] = {x->in[0].data, x->in[1].data, x->out[0].data, bias ? x->in[2].data : NULL, x->out[0].data};
    MP_CHECK(mp_dnn_plan_run(s->plans[FORWARD], addresses, x->workspace, err));
    if (bias && s->bias_apart) {
        mp_array values = per_channel(&x->in[2], &x->out[0]);
        const mp_array *in[] = {&x->out[0], &values};
        const double none[MP_FORMULA_PARAMETERS] = {0};
        mp_cuda_floats(MP_FORMULA_add, none, in, 2, &x->out[0]);
    }
    return mp_cuda_launched(err);
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    void *dy = x->d_out[0].data;
    bool turned = x->op->op->traits & MP_TRAIT_TRANSPOSED;
    uint64_t adds = x->adds & call->adds;
    if (s->plans[WEIGHTS]) {
        void *addresses[] = {turned ? dy : x->in[0].data, turned ? x->in[0].data : dy, x->d_in[1].data};
        MP_CHECK(mp_dnn_plan_run(adds & MP_BIT(1) ? s->adding[WEIGHTS] : s->plans[WEIGHTS], addresses, x->workspace, err));
    }
    if (x->to > 2 && x->n_in > 2 && x->d_in[2].dtype) {
        mp_array to = per_channel(&x->d_in[2], &x->d_out[0]);
        mp_cuda_sum_to(&x->d_out[0], &to, 1, adds & MP_BIT(2), x->workspace);
        MP_CHECK(mp_cuda_launched(err));
    }
    if (s->plans[DATA]) {
        void *addresses[] = {dy, x->in[1].data, x->d_in[0].data};
        MP_CHECK(mp_dnn_plan_run(adds & MP_BIT(0) ? s->adding[DATA] : s->plans[DATA], addresses, x->workspace, err));
    }
    return MP_OK;
}

/* Selects the engine of one pass. `bias` and `adds`: as in describe. */
static mp_status plan_pass(const mp_operands *x, mp_call *call, int pass, const mp_sliding *s, const mp_array *y,
                           const mp_array *bias, bool adds, const mp_dnn_plan **plan, mp_error *err)
{
    mp_error why = {0};
    mp_dnn_graph g;
    describe(&g, pass, s, &x->in[0], &x->in[1], y, bias, adds);
    const mp_status st = mp_dnn_plan_find_named(&g, x->algorithm, plan, &why);
    MP_ENSURE(st == MP_OK, err, st, "%s ('%s'): %s", x->op->kind, x->op->name, why.message);
    if (mp_dnn_plan_workspace_bytes(*plan) > call->workspace_bytes) call->workspace_bytes = mp_dnn_plan_workspace_bytes(*plan);
    return MP_OK;
}

/* Selects the engines for the gradient of input `factor` (0: activations, 1: filter). */
static mp_status plan_gradient(const mp_operands *x, mp_call *call, int pass, int factor, const mp_sliding *s,
                               const mp_array *y, mp_error *err)
{
    state *all = call->state;
    MP_CHECK(plan_pass(x, call, pass, s, y, NULL, false, &all->plans[pass], err));
    if ((x->adds & MP_BIT(factor)) && plan_pass(x, call, pass, s, y, NULL, true, &all->adding[pass], NULL) == MP_OK)
        call->adds |= MP_BIT(factor);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_sliding window;
    const mp_array *y = x->is_backward ? &x->d_out[0] : &x->out[0];
    if (x->in[0].dtype != MP_DTYPE_FLOAT && x->in[0].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    if (x->in[0].rank > 2 + MP_DNN_SPATIAL) return MP_NO_KERNEL(x, err, "more than three spatial dimensions");
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    const mp_dnn_plan **forward = &s->plans[FORWARD];
    MP_CHECK(mp_sliding_convolution(x->model, x->op, &x->in[0], &x->in[1], y, &window, err));
    if (!x->is_backward) {
        if (has_bias(x)) s->bias_apart = plan_pass(x, call, FORWARD, &window, y, &x->in[2], false, forward, NULL) != MP_OK;
        if (!*forward) MP_CHECK(plan_pass(x, call, FORWARD, &window, y, NULL, false, forward, err));
        return MP_OK;
    }
    call->adds = x->adds & MP_BIT(2);
    if (x->from < 2 && x->to > 1 && x->d_in[1].dtype) MP_CHECK(plan_gradient(x, call, WEIGHTS, 1, &window, y, err));
    if (x->from < 1 && x->d_in[0].dtype) MP_CHECK(plan_gradient(x, call, DATA, 0, &window, y, err));
    if (x->to > 2 && x->n_in > 2 && x->d_in[2].dtype) {
        mp_array to = per_channel(&x->d_in[2], y);
        int64_t bytes = mp_cuda_sum_workspace_bytes(y, &to);
        if (bytes > call->workspace_bytes) call->workspace_bytes = bytes;
    }
    return MP_OK;
}

/* Lists the algorithms of a node. If an engine adds the bias in a forward pass, only engines with the bias are listed, as in
 * prepare. */
mp_status mp_cuda_convolution_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err)
{
    const mp_kernel *table = mp_cuda_convolutions;
    mp_sliding window;
    mp_dnn_graph g;
    const mp_array *y = x->is_backward ? &x->d_out[0] : &x->out[0];
    out->n = 0;
    if (!mp_kernel_find(&table, 1, x->op)) return MP_OK;
    const bool weights = x->is_backward && x->from < 2 && x->to > 1 && x->d_in[1].dtype;
    const bool data = x->is_backward && x->from < 1 && x->d_in[0].dtype;
    /* the node has two passes or none. The name of one algorithm would not describe the node, so none is listed */
    if (x->is_backward && weights == data) return MP_OK;
    MP_CHECK(mp_sliding_convolution(x->model, x->op, &x->in[0], &x->in[1], y, &window, err));
    const int pass = !x->is_backward ? FORWARD : weights ? WEIGHTS : DATA;
    if (pass == FORWARD && has_bias(x)) {
        describe(&g, pass, &window, &x->in[0], &x->in[1], y, &x->in[2], false);
        if (mp_dnn_algorithms(&g, out, NULL) != MP_OK)
            out->n = 0; /* no engine adds the bias, so a separate kernel will add it: lists the engines without bias */
    }
    if (out->n) return MP_OK;
    describe(&g, pass, &window, &x->in[0], &x->in[1], y, NULL, false);
    return mp_dnn_algorithms(&g, out, err);
}

const mp_kernel mp_cuda_convolutions[] = {
    {"Conv", "", prepare, prepare},
    {"ConvTranspose", "", prepare, prepare},
    {0},
};
