/* reductions_cpu.c - Reduce operators: forward through the reduction engine, backward element by element from what the registry
 * keeps, with the gradient and the result of each group spread over its elements. Whole numbers one result at a time. */
#include "executor/cpu/base/families.h"
#include "executor/kernel/element.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/reductions/reduction_cpu.h"

/* The gradients of elements, from in[0] = dy, in[1] = x, in[2] = y, in[3] = zeros, as far as they are read; p[0] is the
 * number of elements in a group, p[1] that of operands. */
#define SLOPE(name, f)                                                                                    \
    MP_VECTOR static void d_##name(const double *p, int64_t elements, const float *const *in, float *out) \
    {                                                                                                     \
        const float *dys = in[0], *xs = in[1], *ys = in[2], *all_zeros = in[p[1] > 3 ? 3 : 0];            \
        const float count = (float)p[0];                                                                  \
        (void)count;                                                                                      \
        MP_INDEPENDENT for (int64_t k = 0; k < elements; k++)                                             \
        {                                                                                                 \
            const float dy = dys[k], x = xs[k], y = ys[k], zeros = all_zeros[k];                          \
            (void)x, (void)y, (void)zeros;                                                                \
            out[k] = f;                                                                                   \
        }                                                                                                 \
    }
#include "executor/operators/reductions/reductions.def"

#define SLOPE(name, f) [MP_SLOPE_##name] = d_##name,
static const mp_row slopes[] = {
#include "executor/operators/reductions/reductions.def"
};

MP_VECTOR static void divide(const double *p, int64_t n, const float *const *in, float *out)
{
    const float *as = in[0], *bs = in[1];
    (void)p;
    MP_INDEPENDENT for (int64_t k = 0; k < n; k++) out[k] = as[k] / bs[k];
}

typedef struct state {
    const mp_reduction_row *row;
    bool reduced[MP_ARRAY_RANK];
    mp_reduction reduction;
    mp_array spread[2]; /* in the workspace: what a gradient needs per output */
    double parameters[2];
} state;

static mp_status run_forward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    (void)err;
    if (s->row->shifted) mp_reduction_run(&s->reduction, MP_STEP_MAX, MP_END_none, &x->in[0], &y, NULL, x->workspace);
    mp_reduction_run(&s->reduction, s->row->step, s->row->end, &x->in[0], &y, s->row->shifted ? &y : NULL, x->workspace);
    return MP_OK;
}

static mp_status run_backward(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const state *s = call->state;
    int rank = x->in[0].rank;
    mp_array dy = mp_reduction_kept_dims(&x->d_out[0], rank, s->reduced), spread[2] = {s->spread[0], s->spread[1]};
    mp_array y = mp_reduction_kept_dims(&x->out[0], rank, s->reduced);
    const mp_array *in[4] = {&dy, &dy, &dy, &dy};
    void *partial = (char *)x->workspace + 2 * mp_array_bytes(&spread[0]);
    (void)err;
    spread[0].data = x->workspace;
    spread[1].data = (char *)x->workspace + mp_array_bytes(&spread[0]);
    if (s->row->reads == MP_READS_OUTPUT) in[1] = &y;
    if (s->row->reads >= MP_READS_INPUT && s->row->reads != MP_READS_OUTPUT) in[1] = &x->in[0];
    if (s->row->reads == MP_READS_BOTH || s->row->reads == MP_READS_TIES) in[2] = &y;
    if (s->row->reads == MP_READS_TIES) {
        mp_reduction_run(&s->reduction, MP_STEP_EQUALS, MP_END_none, &x->in[0], &spread[0], &y, partial);
        mp_elementwise(divide, s->parameters, (const mp_array *const[]){&dy, &spread[0]}, 2, &spread[0]);
        in[0] = &spread[0];
    } else if (s->row->reads == MP_READS_ZEROS) {
        mp_reduction_run(&s->reduction, MP_STEP_NONZEROS, MP_END_none, &x->in[0], &spread[0], NULL, partial);
        mp_reduction_run(&s->reduction, MP_STEP_ZEROS, MP_END_none, &x->in[0], &spread[1], NULL, partial);
        in[2] = &spread[0];
        in[3] = &spread[1];
    }
    mp_elementwise(slopes[s->row->slope], s->parameters, in, (int)s->parameters[1], &x->d_in[0]);
    return MP_OK;
}

/* Whole numbers and booleans, exact modulo 2^64; means are cut towards zero. */
typedef struct task {
    const state *s;
    const mp_operands *x;
} task;

static void reduce_one(void *data, int64_t k)
{
    const task *t = data;
    const mp_reduction *r = &t->s->reduction;
    const mp_array *in = &t->x->in[0], *out = &t->x->out[0];
    bool is_unsigned = in->dtype == MP_DTYPE_UINT64, extreme = t->s->row->step == MP_STEP_MAX || t->s->row->step == MP_STEP_MIN;
    const int64_t from = mp_strided_place(r->n_kept, r->kept, r->kept_stride, k),
                  to = mp_strided_place(r->n_kept, r->kept, r->to_stride, k);
    uint64_t result = t->s->row->step == MP_STEP_PRODUCT;
    for (int64_t e = 0; e < r->n_terms; e++) {
        int64_t v = mp_load_whole(in->data, in->dtype, from + mp_strided_place(r->n_reduced, r->reduced, r->reduced_stride, e));
        result = extreme && e == 0 ? (uint64_t)v : mp_take_whole(t->s->row->step, is_unsigned, result, v);
    }
    int64_t value = (int64_t)result;
    if (t->s->row->end == MP_END_mean) value = is_unsigned ? (int64_t)(result / (uint64_t)r->n_terms) : value / r->n_terms;
    mp_store_whole(out->data, out->dtype, to, value);
}

static mp_status run_whole(const mp_call *call, const mp_operands *x, mp_error *err)
{
    task t = {call->state, x};
    (void)err;
    mp_parallel(t.s->reduction.n_out, t.s->reduction.n_terms, reduce_one, &t);
    return MP_OK;
}

static mp_status prepare_whole(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_reduction_row *found = mp_reduction_row_of(x->op);
    mp_dtype dtype = x->in[0].dtype;
    if (x->is_backward || !mp_reduction_takes_whole(found) || !mp_elementwise_knows(dtype) || mp_dtype_is_float(dtype))
        return MP_NO_KERNEL(x, err, "its type");
    state *s;
    MP_ENSURE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run_whole;
    s->row = found;
    MP_CHECK(mp_reduced_dims(x, s->reduced, err));
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    mp_reduction_describe(&s->reduction, &x->in[0], &y, NULL);
    if (s->reduction.n_terms == 0 && s->reduction.n_out > 0) return MP_NO_KERNEL(x, err, "reducing nothing");
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (!mp_is_real(x->in[0].dtype)) return prepare_whole(x, call, err);
    MP_STATE(state, s, call, err);
    call->run = x->is_backward ? run_backward : run_forward;
    s->row = mp_reduction_row_of(x->op);
    MP_CHECK(mp_reduced_dims(x, s->reduced, err));
    bool none = x->in[0].rank > 0, shares = s->row->reads == MP_READS_TIES || s->row->reads == MP_READS_ZEROS;
    for (int d = 0; d < x->in[0].rank; d++) none = none && !s->reduced[d];
    if (none && !s->row->is_plain) return MP_NO_KERNEL(x, err, "reducing no dimension");
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced), to = y;
    if (x->is_backward && shares) {
        to = mp_array_plain(MP_DTYPE_FLOAT, y.rank, y.dims);
        s->spread[0] = s->spread[1] = to;
        call->workspace_bytes = 2 * mp_array_bytes(&to);
    }
    mp_reduction_describe(&s->reduction, &x->in[0], &to, x->is_backward && !shares ? NULL : &y);
    if (!x->is_backward || shares) call->workspace_bytes += s->reduction.workspace_bytes;
    s->parameters[0] = (double)s->reduction.n_terms;
    s->parameters[1] = s->row->reads == MP_READS_ZEROS ? 4 : 3;
    return MP_OK;
}

#define REDUCTION(kind, step, end, shifted, is_plain, slope, reads) {#kind, "", prepare, prepare},
const mp_kernel mp_cpu_reductions[] = {
#include "executor/operators/reductions/reductions.def"
    {0},
};
