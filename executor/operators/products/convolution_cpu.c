/* convolution_cpu.c - Conv and ConvTranspose with oneDNN: describes operands in oneDNN's order of dimensions, creates
 * primitive descriptors, and finds implementations by name. */
#include "executor/operators/products/convolution_cpu.h"

#include <stdio.h>
#include <string.h>

#include "executor/cpu/base/families.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/pooling/sliding.h"

/* Describes the weights in oneDNN's order of dimensions: (groups,) outputs, inputs, window. */
static mp_status describe_weights(mp_convolution *c, const mp_array *w, mp_error *err)
{
    mp_array a = {.dtype = w->dtype, .packed = w->packed};
    int first = c->is_transposed ? 1 : 0, second = 1 - first, r = 0;
    int64_t outer_groups = c->groups;
    if (w->packed) return mp_dnnl_desc(&a, c->op, &c->weights, err);
    /* the first dimension of the weights in the model counts the channels of all groups */
    if (outer_groups > 1) {
        a.dims[r] = outer_groups;
        a.strides[r++] = w->dims[0] / outer_groups * w->strides[0];
    }
    int64_t part = w->dims[0] / outer_groups;
    a.dims[r] = first ? w->dims[1] : part;
    a.strides[r++] = w->strides[first];
    a.dims[r] = first ? part : w->dims[1];
    a.strides[r++] = w->strides[second];
    for (int d = 2; d < w->rank; d++, r++) {
        a.dims[r] = w->dims[d];
        a.strides[r] = w->strides[d];
    }
    a.rank = r;
    return mp_dnnl_desc(&a, c->op, &c->weights, err);
}

mp_status mp_convolution_read(const mp_model *model, const mp_operator *op, const mp_array *x, const mp_array *weights,
                              const mp_array *y, const mp_array *bias, mp_convolution *out, mp_error *err)
{
    mp_sliding s;
    MP_CHECK(mp_sliding_convolution(model, op, x, weights, y, &s, err));
    mp_convolution c = {.op = op, .n = s.n, .is_transposed = s.is_transposed, .groups = s.groups};
    for (int d = 0; d < s.n; d++) {
        c.strides[d] = s.stride[d];
        c.dilates[d] = s.dilation[d] - 1;
        c.begin[d] = s.begin[d];
        c.end[d] = s.end[d];
    }
    MP_CHECK(mp_dnnl_desc(x, op, &c.src, err));
    MP_CHECK(mp_dnnl_desc(y, op, &c.dst, err));
    MP_CHECK(describe_weights(&c, weights, err));
    c.has_bias = bias && bias->dtype != MP_DTYPE_UNDEFINED;
    if (c.has_bias) MP_CHECK(mp_dnnl_desc(bias, op, &c.bias, err));
    *out = c;
    return MP_OK;
}

/* Fills oneDNN's description of a convolution pass with the algorithm `algorithm`. */
static dnnl_status_t describe_pass(const mp_convolution *c, mp_convolution_pass pass, dnnl_alg_kind_t algorithm,
                                   const dnnl_memory_desc_t *src, const dnnl_memory_desc_t *weights,
                                   const dnnl_memory_desc_t *dst, dnnl_convolution_desc_t *d)
{
    const dnnl_memory_desc_t *bias = c->has_bias ? &c->bias : NULL;
    const dnnl_alg_kind_t turned =
        algorithm == dnnl_convolution_direct ? dnnl_deconvolution_direct : dnnl_deconvolution_winograd;
    switch (pass) {
    case MP_CONVOLVE_FORWARD:
        return c->is_transposed
                   ? dnnl_dilated_deconvolution_forward_desc_init(d, dnnl_forward_training, turned, src, weights, bias, dst,
                                                                  c->strides, c->dilates, c->begin, c->end)
                   : dnnl_dilated_convolution_forward_desc_init(d, dnnl_forward_training, algorithm, src, weights, bias, dst,
                                                                c->strides, c->dilates, c->begin, c->end);
    case MP_CONVOLVE_DATA:
        return c->is_transposed ? dnnl_dilated_deconvolution_backward_data_desc_init(d, turned, src, weights, dst, c->strides,
                                                                                     c->dilates, c->begin, c->end)
                                : dnnl_dilated_convolution_backward_data_desc_init(d, algorithm, src, weights, dst, c->strides,
                                                                                   c->dilates, c->begin, c->end);
    default:
        return c->is_transposed ? dnnl_dilated_deconvolution_backward_weights_desc_init(
                                      d, turned, src, weights, bias, dst, c->strides, c->dilates, c->begin, c->end)
                                : dnnl_dilated_convolution_backward_weights_desc_init(d, algorithm, src, weights, bias, dst,
                                                                                      c->strides, c->dilates, c->begin, c->end);
    }
}

/* Creates the forward descriptor that oneDNN requires as a hint for backward descriptors. */
static mp_status make_hint(const mp_convolution *c, const dnnl_memory_desc_t *src, const dnnl_memory_desc_t *weights,
                           const dnnl_memory_desc_t *dst, dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out, mp_error *err)
{
    dnnl_convolution_desc_t d;
    dnnl_memory_desc_t any[3] = {mp_dnnl_any(src), mp_dnnl_any(weights), mp_dnnl_any(dst)};
    MP_CHECK(mp_dnnl_check(describe_pass(c, MP_CONVOLVE_FORWARD, dnnl_convolution_direct, &any[0], &any[1], &any[2], &d), c->op,
                           "the convolution", err));
    return MP_DNNL_PREPARED(dnnl_primitive_desc_create(out, &d, attr, mp_dnnl_engine(), NULL), c->op, "the convolution", err);
}

mp_status mp_convolution_desc(const mp_convolution *c, mp_convolution_pass pass, const dnnl_memory_desc_t *src,
                              const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *dst, dnnl_primitive_desc_t *out,
                              mp_error *err)
{
    MP_OWNED_BY(dnnl_primitive_attr_destroy) dnnl_primitive_attr_t attr = NULL;
    MP_OWNED_BY(dnnl_primitive_desc_destroy) dnnl_primitive_desc_t hint = NULL;
    dnnl_convolution_desc_t d;
    const char *what = pass == MP_CONVOLVE_FORWARD ? "the convolution" : "the convolution's gradient";
    MP_CHECK(mp_dnnl_attr(&attr, err));
    if (pass != MP_CONVOLVE_FORWARD) MP_CHECK(make_hint(c, src, weights, dst, attr, &hint, err));
    MP_CHECK(mp_dnnl_check(describe_pass(c, pass, dnnl_convolution_direct, src, weights, dst, &d), c->op, what, err));
    return MP_DNNL_PREPARED(dnnl_primitive_desc_create(out, &d, attr, mp_dnnl_engine(), hint), c->op, what, err);
}

/* Calls `visit` for all of oneDNN's implementations of `algorithm` (dnnl_convolution_direct or _winograd), in oneDNN's order;
 * there may be none. `visit` keeps a descriptor by setting *desc to NULL, and returns false to stop. */
static mp_status each_implementation(const mp_convolution *c, mp_convolution_pass pass, dnnl_alg_kind_t algorithm,
                                     const dnnl_memory_desc_t *src, const dnnl_memory_desc_t *weights,
                                     const dnnl_memory_desc_t *dst, bool (*visit)(void *data, dnnl_primitive_desc_t *desc),
                                     void *data, mp_error *err)
{
    MP_OWNED_BY(dnnl_primitive_attr_destroy) dnnl_primitive_attr_t attr = NULL;
    MP_OWNED_BY(dnnl_primitive_desc_destroy) dnnl_primitive_desc_t hint = NULL;
    MP_OWNED_BY(dnnl_primitive_desc_iterator_destroy) dnnl_primitive_desc_iterator_t each = NULL;
    dnnl_convolution_desc_t d;
    dnnl_status_t status;
    bool goes_on = true;
    MP_CHECK(mp_dnnl_attr(&attr, err));
    if (pass != MP_CONVOLVE_FORWARD) MP_CHECK(make_hint(c, src, weights, dst, attr, &hint, err));
    if (describe_pass(c, pass, algorithm, src, weights, dst, &d) != dnnl_success) return MP_OK;
    mp_library_works++;
    status = dnnl_primitive_desc_iterator_create(&each, &d, attr, mp_dnnl_engine(), hint);
    mp_library_works--;
    if (status == dnnl_out_of_memory) MP_CHECK(mp_dnnl_check(status, c->op, "the convolution", err));
    if (status != dnnl_success) return MP_OK;
    do {
        mp_library_works++;
        dnnl_primitive_desc_t desc = dnnl_primitive_desc_iterator_fetch(each);
        mp_library_works--;
        MP_ENSURE(desc, err, MP_NOMEM, "%s ('%s'): oneDNN has no memory for a descriptor", c->op->kind, c->op->name);
        goes_on = visit(data, &desc);
        if (desc) dnnl_primitive_desc_destroy(desc);
        mp_library_works++;
        goes_on = goes_on && dnnl_primitive_desc_iterator_next(each) == dnnl_success;
        mp_library_works--;
    } while (goes_on);
    return MP_OK;
}

/* Returns oneDNN's name of the implementation, such as "jit:avx512_core". The string is valid as long as the descriptor. */
static const char *implementation_name(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name ? name : "";
}

/* True for oneDNN's reference implementations. */
static bool is_slow(const_dnnl_primitive_desc_t desc)
{
    const char *name = implementation_name(desc);
    return !*name || strstr(name, "ref");
}

mp_status mp_convolution_best(const mp_convolution *c, mp_convolution_pass pass, dnnl_primitive_desc_t *out, mp_error *err)
{
    mp_error first = {0};
    dnnl_memory_desc_t src = mp_dnnl_any(&c->src), weights = mp_dnnl_any(&c->weights), dst = mp_dnnl_any(&c->dst);
    dnnl_primitive_desc_t here = NULL, anywhere = NULL;
    mp_status st = mp_convolution_desc(c, pass, &c->src, &weights, &c->dst, &here, &first);
    if (st == MP_OK && !is_slow(here)) {
        *out = here;
        return MP_OK;
    }
    if (mp_convolution_desc(c, pass, &src, &weights, &dst, &anywhere, st == MP_OK ? NULL : err) == MP_OK &&
        (st != MP_OK || !is_slow(anywhere))) {
        if (here) dnnl_primitive_desc_destroy(here);
        *out = anywhere;
        return MP_OK;
    }
    if (anywhere) dnnl_primitive_desc_destroy(anywhere);
    *out = here;
    return st;
}

typedef struct seeker {
    const mp_convolution *convolution;
    mp_convolution_pass pass;
    const char *name;            /* name of the requested algorithm; NULL: list all algorithms */
    dnnl_primitive_desc_t found; /* descriptor of the requested algorithm; NULL: not found */
    mp_algorithms *list;
} seeker;

static bool lies_so(const dnnl_memory_desc_t *wanted, const dnnl_memory_desc_t *is)
{
    return wanted && dnnl_memory_desc_equal(wanted, is);
}

static void name_of(const mp_convolution *c, mp_convolution_pass pass, const_dnnl_primitive_desc_t desc,
                    char name[MP_ALGORITHM_NAME])
{
    dnnl_query_t src = pass == MP_CONVOLVE_DATA ? dnnl_query_diff_src_md : dnnl_query_src_md;
    dnnl_query_t dst = pass == MP_CONVOLVE_FORWARD ? dnnl_query_dst_md : dnnl_query_diff_dst_md;
    bool here = lies_so(dnnl_primitive_desc_query_md(desc, src, 0), &c->src) &&
                lies_so(dnnl_primitive_desc_query_md(desc, dst, 0), &c->dst);
    snprintf(name, MP_ALGORITHM_NAME, "%.*s%s", MP_ALGORITHM_NAME - 16, implementation_name(desc), here ? "" : " reordered");
}

/* True if the names of two algorithms are of one kind: they differ only in the processor ("jit:avx512_core", "jit:avx2"),
 * and both or neither are "reordered". oneDNN lists the implementation for the newer processor first. */
static bool of_a_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");
    return n == strcspn(b, ":") && !strncmp(a, b, n) && !strchr(a, ' ') == !strchr(b, ' ');
}

static void put(mp_algorithms *list, const char *name)
{
    for (int k = 0; k < list->n; k++)
        if (of_a_kind(list->list[k].name, name)) return;
    if (list->n == MP_ALGORITHMS) return;
    snprintf(list->list[list->n].name, MP_ALGORITHM_NAME, "%s", name);
    list->list[list->n++].is_deterministic = true;
}

static bool visit(void *data, dnnl_primitive_desc_t *desc)
{
    seeker *s = data;
    char name[MP_ALGORITHM_NAME];
    name_of(s->convolution, s->pass, *desc, name);
    if (s->list) {
        if (!is_slow(*desc)) put(s->list, name);
        return true;
    }
    if (strcmp(name, s->name) != 0) return true;
    s->found = *desc;
    *desc = NULL;
    return false;
}

/* Visits the implementations of each oneDNN algorithm: first for the activations in their own layout, then in a layout that
 * oneDNN chooses. */
static mp_status seek(seeker *s, mp_error *err)
{
    static const dnnl_alg_kind_t algorithms[] = {dnnl_convolution_direct, dnnl_convolution_winograd};
    const mp_convolution *c = s->convolution;
    dnnl_memory_desc_t src = mp_dnnl_any(&c->src), weights = mp_dnnl_any(&c->weights), dst = mp_dnnl_any(&c->dst);
    for (int a = 0; a < 2; a++)
        for (int any = 0; any < 2 && !s->found; any++)
            MP_CHECK(each_implementation(c, s->pass, algorithms[a], any ? &src : &c->src, &weights, any ? &dst : &c->dst, visit,
                                         s, err));
    return MP_OK;
}

mp_status mp_convolution_algorithms(const mp_convolution *c, mp_convolution_pass pass, mp_algorithms *out, mp_error *err)
{
    seeker s = {.convolution = c, .pass = pass, .list = out};
    MP_OWNED_BY(dnnl_primitive_desc_destroy) dnnl_primitive_desc_t best = NULL;
    char name[MP_ALGORITHM_NAME];
    out->n = 0;
    MP_CHECK(mp_convolution_best(c, pass, &best, err));
    name_of(c, pass, best, name);
    put(out, name);
    return seek(&s, err);
}

mp_status mp_convolution_named(const mp_convolution *c, mp_convolution_pass pass, const char *name, dnnl_primitive_desc_t *out,
                               mp_error *err)
{
    seeker s = {.convolution = c, .pass = pass, .name = name};
    MP_CHECK(seek(&s, err));
    MP_ENSURE(s.found, err, MP_UNSUPPORTED, "%s ('%s'): oneDNN has no implementation '%s' of it here", c->op->kind, c->op->name,
              name);
    *out = s.found;
    return MP_OK;
}

/* ---- calls. If an implementation requires another layout of an operand, an input is reordered into the workspace, and a
 * result is reordered from the workspace to its own memory. */

/* One operand of a pass: used in place, or through a copy in the workspace. */
typedef struct passage {
    int arg;
    bool is_result;
    mp_dnnl_op reorder; /* the copy between the two layouts; its primitive is NULL if the operand is used in place */
    int64_t at, bytes;  /* offset and size of the copy in the workspace */
} passage;

typedef struct pass {
    mp_dnnl_op op;
    passage src, weights, dst;
    int64_t reorder_scratch, scratch_at, workspace_bytes;
    bool is_there;
} pass;

typedef struct state {
    pass forward, data, weights;
    bool only_bias; /* true: the pass computes the gradient of the bias but not of the weights */
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

/* Prepares one operand of a pass: `has` is the operand's layout in memory, `wants` the layout that the implementation
 * requires. */
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

/* Prepares a pass with the algorithm named `algorithm`; NULL: the choice of mp_convolution_best. */
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

/* Before a run: sets the address of an operand, or of its copy in the workspace. An input is copied immediately; a result is
 * copied after the run (function leave). */
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

/* The state of a convolution's call: the operand descriptions, and the passes that the node runs. */
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
    /* if the node runs several passes, the name of one algorithm would not describe the node */
    if (w.forward + w.weights + w.data != 1) return MP_OK;
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
