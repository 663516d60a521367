/* reduction_top.c - TopK (executor/operators/reductions/top.h).
 *
 * The list of indices is itself the heap in which the k best are kept, so no other room is needed.
 */
#include "executor/cpu/elementwise/elementwise.h"
#include "executor/cpu/reductions/reduction.h"
#include "executor/operators/reductions/top.h"

typedef struct task {
    const mp_top *s;
    const mp_array *in, *values, *indices;
} task;

static void choose_line(void *data, int64_t k)
{
    const task *t = data;
    const mp_top *s = t->s;
    int64_t in, values, indices;
    mp_top_locate(s, k, &in, &values, &indices);
    mp_top_line l = {t->in->data,   t->in->dtype, in, s->in_step, (int64_t *)t->indices->data + indices,
                     s->index_step, s->largest};
    mp_top_choose(&l, s->length, s->k);
    for (int64_t i = 0; i < s->k; i++) {
        int64_t from = in + l.heap[i * s->index_step] * s->in_step, to = values + i * s->value_step;
        mp_top_copy(t->in->data, from, t->values->data, to, t->in->dtype);
    }
}

/* in: its gradient; values: theirs. */
static void spread_line(void *data, int64_t k)
{
    const task *t = data;
    const mp_top *s = t->s;
    int64_t in, values, indices;
    mp_top_locate(s, k, &in, &values, &indices);
    const int64_t *index = (const int64_t *)t->indices->data + indices;
    for (int64_t i = 0; i < s->length; i++) mp_store_float(t->in->data, t->in->dtype, in + i * s->in_step, 0);
    for (int64_t i = 0; i < s->k; i++)
        mp_store_float(t->in->data, t->in->dtype, in + index[i * s->index_step] * s->in_step,
                       mp_load_float(t->values->data, t->values->dtype, values + i * s->value_step));
}

static mp_status run_top(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_top *s = call->state;
    task t = {s, x->is_backward ? &x->d_in[0] : &x->in[0], x->is_backward ? &x->d_out[0] : &x->out[0], &x->out[1]};
    (void)run, (void)err;
    mp_parallel(s->n_lines, 4 * s->length, x->is_backward ? spread_line : choose_line, &t);
    return MP_OK;
}

mp_status mp_prepare_top_k(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    mp_top *s;
    const mp_array *in = x->is_backward ? &x->d_in[0] : &x->in[0], *values = x->is_backward ? &x->d_out[0] : &x->out[0];
    const mp_array *indices = &x->out[1];
    int64_t axis = mp_operator_int(x->op, "axis", -1);
    if (!mp_elementwise_knows(in->dtype) || !values->dtype || !indices->dtype) return MP_NO_KERNEL(x, err, "its type");
    if (x->is_backward && in->dtype != MP_DTYPE_FLOAT && in->dtype != MP_DTYPE_BFLOAT16)
        return MP_NO_KERNEL(x, err, "its type");
    if (axis < 0) axis += in->rank;
    if (axis < 0 || axis >= in->rank) return MP_NO_KERNEL(x, err, "an axis that is not there");
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run_top;
    s->n_lines = 1;
    for (int d = 0; d < in->rank; d++) {
        if (d == axis) continue;
        s->dims[s->rank] = in->dims[d];
        s->in[s->rank] = in->strides[d];
        s->values[s->rank] = values->strides[d];
        s->indices[s->rank++] = indices->strides[d];
        s->n_lines *= in->dims[d];
    }
    s->length = in->dims[axis];
    s->k = values->dims[axis];
    s->in_step = in->strides[axis];
    s->value_step = values->strides[axis];
    s->index_step = indices->strides[axis];
    s->largest = mp_operator_int(x->op, "largest", 1) != 0;
done:
    return st;
}
