/* columns_cpu.c - Col2Im on the CPU: forward a channel of the image to an item, backward a row of the columns. */
#include "executor/operators/sampling/columns.h"

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"

typedef struct job {
    const mp_col2im *s;
    const mp_operands *x;
    int64_t n; /* elements of an item */
    bool add;
} job;

static void sum_channel(void *data, int64_t item)
{
    const job *j = data;
    const mp_array *x = &j->x->in[0], *y = &j->x->out[0];
    int64_t sample = item / y->dims[1], channel = item % y->dims[1];
    for (int64_t k = 0; k < j->n; k++) {
        int64_t to = sample * y->strides[0] + channel * y->strides[1], left = k;
        for (int d = j->s->n - 1; d >= 0; d--) {
            to += left % j->s->image[d] * y->strides[d + 2];
            left /= j->s->image[d];
        }
        mp_store_float(y->data, y->dtype, to, mp_col2im_sum(j->s, x, sample, channel, k));
    }
}

static void give_row(void *data, int64_t item)
{
    const job *j = data;
    const mp_array *dx = &j->x->d_in[0], *dy = &j->x->d_out[0];
    int64_t sample = item / dx->dims[1], row = item % dx->dims[1];
    for (int64_t k = 0; k < j->n; k++) {
        int64_t to = sample * dx->strides[0] + row * dx->strides[1] + k * dx->strides[2];
        float old = j->add ? mp_load_float(dx->data, dx->dtype, to) : 0;
        mp_store_float(dx->data, dx->dtype, to, old + mp_col2im_back(j->s, dy, sample, row, k));
    }
}

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_col2im *s = call->state;
    const mp_array *columns = &x->in[0];
    job j = {s, x, columns->dims[2], x->adds & call->adds & MP_BIT(0)};
    (void)run, (void)err;
    if (x->is_backward) {
        mp_parallel(columns->dims[0] * columns->dims[1], j.n, give_row, &j);
        return MP_OK;
    }
    j.n = 1;
    for (int d = 0; d < s->n; d++) j.n *= s->image[d];
    mp_parallel(x->out[0].dims[0] * x->out[0].dims[1], j.n * s->n_taps, sum_channel, &j);
    return MP_OK;
}

static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    call->run = run;
    return mp_col2im_prepare(x, call, err);
}

const mp_kernel mp_cpu_columns[] = {{"Col2Im", "", prepare, prepare}, {0}};
