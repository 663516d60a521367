/* top_cpu.c - TopK (top.h): the list of indices is itself the heap in which the k best are kept, so no workspace is needed. */
#include "executor/operators/reductions/top.h"

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"

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

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run_top;
    return mp_top_prepare(x, call, err);
}

const mp_kernel mp_cpu_tops[] = {{"TopK", "", prepare, prepare}, {0}};
