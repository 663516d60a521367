/* reduction_integers.c - Reduce operators on whole numbers and booleans, exact modulo 2^64; means are cut towards zero. */
#include "executor/cpu/elementwise/elementwise.h"
#include "executor/cpu/reductions/reduction.h"

typedef struct state {
    const mp_reduction_row *row;
    bool reduced[MP_ARRAY_RANK];
    mp_reduction reduction;
} state;

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
    int64_t from = 0, to = 0;
    uint64_t result = t->s->row->step == MP_STEP_PRODUCT;
    for (int d = r->n_kept - 1; d >= 0; d--) {
        from += k % r->kept[d] * r->kept_stride[d];
        to += k % r->kept[d] * r->to_stride[d];
        k /= r->kept[d];
    }
    for (int64_t e = 0; e < r->n_terms; e++) {
        int64_t at = from, left = e;
        for (int d = r->n_reduced - 1; d >= 0; d--) {
            at += left % r->reduced[d] * r->reduced_stride[d];
            left /= r->reduced[d];
        }
        int64_t v = mp_load_whole(in->data, in->dtype, at);
        result = extreme && e == 0 ? (uint64_t)v : mp_take_whole(t->s->row->step, is_unsigned, result, v);
    }
    int64_t value = (int64_t)result;
    if (t->s->row->end == MP_END_mean) value = is_unsigned ? (int64_t)(result / (uint64_t)r->n_terms) : value / r->n_terms;
    mp_store_whole(out->data, out->dtype, to, value);
}

static mp_status run_forward(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    task t = {call->state, x};
    (void)run, (void)err;
    mp_parallel(t.s->reduction.n_out, t.s->reduction.n_terms, reduce_one, &t);
    return MP_OK;
}

mp_status mp_prepare_integer_reduction(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    const mp_reduction_row *found = mp_reduction_row_of(x->op);
    mp_dtype dtype = x->in[0].dtype;
    if (x->is_backward || !mp_reduction_takes_whole(found) || !mp_elementwise_knows(dtype) || mp_dtype_is_float(dtype))
        return MP_NO_KERNEL(x, err, "its type");
    state *s;
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run_forward;
    s->row = found;
    MP_TRY(mp_reduced_dims(x, s->reduced, err));
    mp_array y = mp_reduction_kept_dims(&x->out[0], x->in[0].rank, s->reduced);
    mp_reduction_describe(&s->reduction, &x->in[0], &y, NULL);
    if (s->reduction.n_terms == 0 && s->reduction.n_out > 0) st = MP_NO_KERNEL(x, err, "reducing nothing");
done:
    return st;
}
