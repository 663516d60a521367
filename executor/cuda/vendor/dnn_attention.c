/* dnn_attention.c - attention in bfloat16 by cuDNN, if cuDNN has engines for the given shapes, else by memplan's own kernel.
 * Where both are possible, they are algorithms of the node.
 *
 * The default depends only on the shapes and layouts of Q, K, V, Y and the mask, on the settings and on the GPU. Forward, its
 * recomputation and backward of a node therefore make the same choice. Without a GPU, cuDNN returns no engine even for known
 * graphs; an engine is then assumed, with the workspace stated in the graph. docs/guides/gpu.md lists the parts that have run
 * on a GPU.
 *
 * Engines require K with its depth innermost. A K in another layout (transK) is copied to the workspace, and its gradient is
 * copied back. Gradients that are not bfloat16 are copied too. Boolean or float masks are converted to an additive mask in the
 * workspace. A mask that is equal for all rows is read in place if cuDNN has engines for it, else it is converted too. Dropout
 * uses cuDNN's own generator, seeded from the step's seed in every run. Forward, its recomputation and backward therefore drop
 * the same elements. memplan's own kernel drops other elements. */
#include "executor/cuda/vendor/dnn_attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/grid/families.h"
#include "executor/cuda/grid/launched.h"
#include "executor/cuda/vendor/dnn_attention_graphs.h"
#include "executor/operators/attention/attention_operands_cuda.h"
#include "executor/operators/attention/packed_operands.h"
#include "executor/operators/elementwise/elementwise_cuda.h"

enum { ALIGNMENT = 64 };

typedef struct pass {
    const mp_dnn_plan *plan;
    mp_dnn_attention at;
} pass;

typedef struct state {
    pass pass;
    float scale, hidden, kept, growth;
    /* Workspace offsets in bytes of the tensors that are no operands of the node. cuDNN's own workspace starts at offset 0. */
    int64_t statistics_at, row_sums_at, dq_sums_at, k_at, gradient_at[3], seed_at, offset_at, mask_at;
    bool makes_mask; /* true: before each run, an additive mask is computed from the node's masks */
    mp_joint_mask masks;
    bool is_apart[3]; /* for the gradients of Q, K and V: true if cuDNN writes the gradient to the workspace, because it is not
                         requested or is copied to the operand afterwards */
    mp_array k, k_aligned; /* K, and its copy with the depth innermost, both as [.., columns, depth]; dtype UNDEFINED: K needs
                              no copy */
} state;

static bool forward_plan(const mp_attention_spec *form, pass *out, mp_error *refusal)
{
    mp_dnn_graph g;
    mp_dnn_attention_forward(form, &g, &out->at);
    return mp_dnn_plan_find(&g, &out->plan, refusal) == MP_OK;
}

/* The names of a node's algorithms. `adding`: cuDNN accumulates parts of dQ in memory, in no fixed summation order. */
static const char library[] = "cuDNN", adding[] = "cuDNN, any order", own_kernels[] = "own kernels";

static bool is_named(const mp_operands *x, const char *algorithm)
{
    return x->algorithm && !strcmp(x->algorithm, algorithm);
}

/* Selects a cuDNN engine for backward; false: cuDNN has none. With --fast, the default is the algorithm `adding`, if cuDNN has
 * it. */
static bool backward_plan(const mp_operands *x, const mp_attention_spec *form, pass *out, mp_error *refusal)
{
    const int most = mp_cuda_settings_get()->fast && !(x->is_backward && is_named(x, library)), least = is_named(x, adding);
    for (int adds_up = most; adds_up >= least; adds_up--) {
        mp_dnn_graph g;
        mp_dnn_attention_backward(form, adds_up, &g, &out->at);
        *refusal = (mp_error){0};
        if (mp_dnn_plan_find(&g, &out->plan, refusal) == MP_OK) return true;
    }
    return false;
}

/* Describes a stack of matrices as an array; each matrix is `rows` by `columns`. */
static mp_array array_of(const mp_matrices *m, int64_t rows, int64_t columns)
{
    mp_array a = {.dtype = m->dtype, .rank = m->n_batch + 2};
    for (int d = 0; d < m->n_batch; d++) {
        a.dims[d] = m->batch[d];
        a.strides[d] = m->batch_stride[d];
    }
    a.dims[m->n_batch] = rows;
    a.strides[m->n_batch] = m->row_stride;
    a.dims[m->n_batch + 1] = columns;
    a.strides[m->n_batch + 1] = m->column_stride;
    return a;
}

/* True if the additive mask has one row per matrix, equal for all rows of scores, in the layout that cuDNN reads. */
static bool is_one_row(const mp_attention_spec *form)
{
    const mp_matrices *added = &form->added;
    return added->dtype == MP_DTYPE_BFLOAT16 && added->column_stride == 1 && !added->row_stride && !form->positions.dtype;
}

/* If cuDNN does not support the node's mask, reserves workspace for an additive mask, and replaces the mask in *form by it.
 * in_place: cuDNN can read a mask of one row in place. Returns false if the mask is too large. */
static bool make_mask(mp_attention_spec *form, bool in_place, state *s, int64_t *bytes)
{
    const mp_matrices *added = &form->added;
    const bool suits = (in_place && is_one_row(form)) || (added->dtype == MP_DTYPE_BFLOAT16 && added->column_stride == 1 &&
                                                          added->row_stride >= form->size.columns);
    *bytes = 0;
    s->makes_mask = form->positions.dtype || (added->dtype && !suits);
    if (!s->makes_mask) return true;
    if (!mp_joint_mask_read(form, &s->masks, bytes)) return false;
    form->positions = (mp_matrices){0};
    form->added = s->masks.to;
    return true;
}

/* If the depth of K is not innermost, describes a copy of K with the depth innermost, and replaces K in *form by the copy. */
static void align_k(mp_attention_spec *form, state *s)
{
    const mp_attention *size = &form->size;
    mp_matrices *k = &form->k;
    if (k->column_stride == 1) return;
    s->k = array_of(k, size->columns, size->depth);
    s->k_aligned = mp_array_plain(k->dtype, s->k.rank, s->k.dims);
    k->row_stride = size->depth;
    k->column_stride = 1;
    for (int d = 0; d < k->n_batch; d++) k->batch_stride[d] = s->k_aligned.strides[d];
}

static void copy(mp_array to, void *to_data, mp_array from, void *from_data)
{
    const double none[MP_FORMULA_PARAMETERS] = {0};
    const mp_array *in[] = {&from};
    to.data = to_data;
    from.data = from_data;
    mp_cuda_floats(MP_FORMULA_copy, none, in, 1, &to);
}

/* Reserves `bytes` bytes at the end of the workspace and sets *at to their offset. Returns false if the size overflows. */
static bool take(int64_t bytes, int64_t *at, int64_t *end)
{
    *at = *end;
    return mp_add(*end, bytes, end) && mp_round_up(*end, ALIGNMENT, end);
}

static bool lay_out(const mp_operands *x, const mp_attention_spec *form, int64_t mask_bytes, state *s, int64_t *bytes)
{
    const mp_attention *size = &form->size;
    const int64_t rows = size->n_batch * size->rows;
    int64_t end = 0, own;
    bool fits = take(mp_dnn_plan_workspace_bytes(s->pass.plan), &own, &end);
    if (s->k.dtype) fits = fits && take(mp_array_bytes(&s->k_aligned), &s->k_at, &end);
    if (s->makes_mask) fits = fits && take(mask_bytes, &s->mask_at, &end);
    if (form->ratio > 0) fits = fits && take(sizeof(int64_t), &s->seed_at, &end) && take(sizeof(int64_t), &s->offset_at, &end);
    if (!x->is_backward && !x->extra[0].dtype) fits = fits && take(rows * (int64_t)sizeof(float), &s->statistics_at, &end);
    if (x->is_backward) {
        fits = fits && take(rows * (int64_t)sizeof(float), &s->row_sums_at, &end);
        if (s->pass.at.dq_sums >= 0) fits = fits && take(rows * size->depth * (int64_t)sizeof(float), &s->dq_sums_at, &end);
        for (int i = 0; i < 3; i++) {
            s->is_apart[i] =
                i < x->from || i >= x->to || !form->wants[i] || (i == 1 && s->k.dtype) || x->d_in[i].dtype != MP_DTYPE_BFLOAT16;
            if (s->is_apart[i]) fits = fits && take(mp_array_bytes(&x->in[i]), &s->gradient_at[i], &end);
        }
    }
    *bytes = end;
    return fits;
}

static void *workspace_at(const mp_operands *x, int64_t at)
{
    return (char *)x->workspace + at;
}

/* Copies the requested gradients that cuDNN wrote to the workspace to their operands. */
static void copy_gradients(const mp_operands *x, const state *s, void *const *addresses)
{
    const int gradients[3] = {s->pass.at.dq, s->pass.at.dk, s->pass.at.dv};
    for (int i = x->from; i < x->to && i < 3; i++) {
        if (!s->is_apart[i] || !x->d_in[i].dtype) continue;
        mp_array to = i == 1 && s->k.dtype ? s->k : x->in[i], from = i == 1 && s->k.dtype ? s->k_aligned : x->in[i];
        to.dtype = x->d_in[i].dtype;
        copy(to, x->d_in[i].data, from, addresses[gradients[i]]);
    }
}

static mp_status run_pass(const mp_call *call, const mp_operands *x, mp_error *err)
{
    state *s = call->state;
    const mp_dnn_attention *at = &s->pass.at;
    void *addresses[MP_DNN_TENSORS] = {NULL};
    addresses[at->q] = x->in[0].data;
    addresses[at->k] = s->k.dtype ? workspace_at(x, s->k_at) : x->in[1].data;
    addresses[at->v] = x->in[2].data;
    addresses[at->y] = x->out[0].data;
    addresses[at->statistics] = x->extra[0].dtype ? x->extra[0].data : workspace_at(x, s->statistics_at);
    addresses[at->scale] = &s->scale;
    if (at->added >= 0) addresses[at->added] = s->makes_mask ? workspace_at(x, s->mask_at) : x->in[MP_ATTENTION_ADDED].data;
    if (at->hidden >= 0) addresses[at->hidden] = &s->hidden;
    if (at->seed >= 0) {
        addresses[at->seed] = workspace_at(x, s->seed_at);
        addresses[at->offset] = workspace_at(x, s->offset_at);
        addresses[at->growth] = &s->growth;
        mp_cuda_attention_seed(&x->run, (uint32_t)x->op_index, addresses[at->seed], addresses[at->offset]);
    }
    if (s->makes_mask)
        mp_cuda_attention_mask(&s->masks, s->masks.added.dtype ? x->in[MP_ATTENTION_ADDED].data : NULL,
                               s->masks.positions.dtype ? x->in[MP_ATTENTION_POSITIONS].data : NULL, addresses[at->added]);
    if (x->is_backward) {
        const int gradients[3] = {at->dq, at->dk, at->dv};
        for (int i = 0; i < 3; i++)
            addresses[gradients[i]] = s->is_apart[i] ? workspace_at(x, s->gradient_at[i]) : x->d_in[i].data;
        addresses[at->dy] = x->d_out[0].data;
        addresses[at->kept] = &s->kept;
        addresses[at->row_sums] = workspace_at(x, s->row_sums_at);
        if (at->dq_sums >= 0) addresses[at->dq_sums] = workspace_at(x, s->dq_sums_at);
    }
    if (s->k.dtype) copy(s->k_aligned, addresses[at->k], s->k, x->in[1].data);
    MP_CHECK(mp_dnn_plan_run(s->pass.plan, addresses, x->workspace, err));
    if (x->is_backward) copy_gradients(x, s, addresses);
    return mp_cuda_launched(err);
}

/* Prepares attention with cuDNN. If cuDNN has no engine for both passes within the workspace limit, call->run stays NULL and
 * the reason is stored for the report. */
static mp_status prepare_fused(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_attention_spec form;
    mp_error refusal = {0};
    pass forward, backward;
    MP_OWNED state *s = NULL;
    int64_t bytes, mask_bytes;
    MP_CHECK(mp_attention_spec_read(x, &form, err));
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    *s = (state){.scale = form.scale, .hidden = -INFINITY, .kept = 1 - form.ratio, .growth = 1 / (1 - form.ratio)};
    align_k(&form, s);
    const char *why = mp_dnn_attention_refusal(&form, cudnnGetVersion());
    const mp_attention_spec given = form;
    bool found = false;
    for (int in_place = is_one_row(&given); !why && !found && in_place >= 0; in_place--) {
        form = given;
        if (!make_mask(&form, in_place, s, &mask_bytes)) why = "its mask is too large";
        found = !why && forward_plan(&form, &forward, &refusal) && backward_plan(x, &form, &backward, &refusal);
    }
    if (!why && !found) why = refusal.message;
    if (!why) s->pass = x->is_backward ? backward : forward;
    if (why) {
        snprintf(call->reason, sizeof call->reason, "%.*s", MP_CALL_REASON - 1, why);
        return MP_OK;
    }
    MP_ENSURE(lay_out(x, &form, mask_bytes, s, &bytes), err, MP_INVALID, "%s ('%s') needs too much workspace", x->op->kind,
              x->op->name);
    if (mp_dnn_plan_is_assumed(s->pass.plan))
        snprintf(call->reason, sizeof call->reason, "assumed: without a GPU cuDNN names no engine");
    call->run = run_pass;
    call->provider = library;
    call->workspace_bytes = bytes;
    call->state = s;
    s = NULL;
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const bool is_known = !x->algorithm || is_named(x, own_kernels) || is_named(x, library) || is_named(x, adding);
    MP_ENSURE(is_known, err, MP_UNSUPPORTED, "%s ('%s'): there is no algorithm '%s'", x->op->kind, x->op->name, x->algorithm);
    if (is_named(x, own_kernels))
        snprintf(call->reason, sizeof call->reason, "the plan names them");
    else
        MP_CHECK(prepare_fused(x, call, err));
    if (call->run) return MP_OK;
    MP_ENSURE(!x->algorithm || is_named(x, own_kernels), err, MP_UNSUPPORTED, "%s ('%s'): cuDNN: %s", x->op->kind, x->op->name,
              call->reason);
    const mp_kernel *own = mp_kernel_find(&(const mp_kernel *){mp_cuda_attentions}, 1, x->op);
    MP_CHECK((x->is_backward ? own->backward : own->forward)(x, call, err));
    call->provider = own_kernels;
    return MP_OK;
}

/* Prepares cuDNN for a node whose other pass may run on own kernels. Fails if the passes must use the same kernels. With
 * dropout, the two would drop different elements. With a converted mask, a fully masked row would have a different logarithm of
 * its sum, because the mask is rounded to bfloat16. */
static mp_status prepare_mixed(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_attention_spec form;
    MP_CHECK(mp_attention_spec_read(x, &form, err));
    MP_CHECK(prepare_fused(x, call, err));
    const state *s = call->state;
    const bool is_mixed = call->run && !s->makes_mask && !(form.ratio > 0);
    return is_mixed ? MP_OK : MP_FAIL(err, MP_UNSUPPORTED, "both passes need the same kernels");
}

mp_status mp_cuda_attention_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err)
{
    const mp_kernel *table = mp_cuda_dnn_attentions;
    const bool fast = mp_cuda_settings_get()->fast;
    if (!mp_kernel_find(&table, 1, x->op)) return MP_OK;
    for (int k = fast && x->is_backward ? 0 : 1; k < 2; k++) {
        MP_CLEARED_BY(mp_call_release) mp_call call = {0};
        mp_error why = {0};
        mp_operands named = *x;
        named.algorithm = k ? library : adding;
        const mp_status st = mp_packed_attention_prepare(prepare_mixed, &named, &call, &why);
        if (st == MP_UNSUPPORTED) continue;
        MP_ENSURE(st == MP_OK, err, st, "%s", why.message);
        snprintf(out->list[out->n].name, MP_ALGORITHM_NAME, "%s", named.algorithm);
        out->list[out->n++].is_deterministic = !fast;
    }
    if (!out->n) return MP_OK;
    snprintf(out->list[out->n].name, MP_ALGORITHM_NAME, "%s", own_kernels);
    out->list[out->n++].is_deterministic = true;
    return MP_OK;
}

static mp_status prepare_any(const mp_operands *x, mp_call *call, mp_error *err)
{
    return mp_packed_attention_prepare(prepare, x, call, err);
}

const mp_kernel mp_cuda_dnn_attentions[] = {
    {"ScaledDotProductAttention", "memplan", prepare_any, prepare_any},
    {0},
};
