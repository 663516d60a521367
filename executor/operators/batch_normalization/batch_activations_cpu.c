/* batch_activations_cpu.c - batch normalization with ReLU behind it, and an addition between them or not: channel by channel,
 * in any layout. The CPU's models have the operators one by one, which are faster than this; here they mean the same. */
#include "executor/operators/batch_normalization/batch_activations_cpu.h"

#include <math.h>

#include "executor/cpu/base/families.h"
#include "executor/cpu/base/parallel.h"
#include "executor/kernel/element.h"
#include "executor/operators/normalizations/normalization.h"

typedef struct state {
    bool adds, from_batch; /* whether something is added; whose statistics */
    int64_t channels, area, positions;
    double epsilon, momentum;
} state;

typedef struct job {
    const state *s;
    const mp_call *call;
    const mp_operands *x;
    bool moves; /* the running statistics */
    float *mean, *rstd;
} job;

static float get(const mp_array *a, int64_t at)
{
    return mp_load_float(a->data, a->dtype, at);
}

/* Where position p of channel c lies: positions count samples, then the other dimensions row-major. */
static int64_t place(const state *s, const mp_array *a, int64_t c, int64_t p)
{
    return p / s->area * a->strides[0] + (a->rank > 1 ? c * a->strides[1] : 0) +
           mp_strided_place(a->rank - 2, a->dims + 2, a->strides + 2, p % s->area);
}

static void measure(const job *j, int64_t c)
{
    const state *s = j->s;
    const mp_array *x = &j->x->in[0];
    double mean = 0, variance = 0;
    for (int64_t p = 0; p < s->positions; p++) mean += get(x, place(s, x, c, p));
    mean /= (double)s->positions;
    for (int64_t p = 0; p < s->positions; p++) {
        const double d = get(x, place(s, x, c, p)) - mean;
        variance += d * d;
    }
    variance /= (double)s->positions;
    j->mean[c] = (float)mean;
    j->rstd[c] = (float)(1 / sqrt(variance + s->epsilon));
    for (int which = 0; j->moves && which < 2; which++) {
        const mp_array *old = &j->x->in[3 + which];
        const double moved = get(old, c) * s->momentum + (which ? variance : mean) * (1 - s->momentum);
        if (old->data) mp_store_float(old->data, old->dtype, c, (float)moved);
    }
}

static void forward(void *data, int64_t c)
{
    const job *j = data;
    const mp_operands *x = j->x;
    const mp_array *y = &x->out[0];
    if (j->s->from_batch) {
        measure(j, c);
    } else {
        j->mean[c] = get(&x->in[3], c);
        j->rstd[c] = (float)(1 / sqrt((double)get(&x->in[4], c) + j->s->epsilon));
    }
    const float gain = j->rstd[c] * get(&x->in[1], c), shift = get(&x->in[2], c);
    for (int64_t p = 0; p < j->s->positions; p++) {
        float v = (get(&x->in[0], place(j->s, &x->in[0], c, p)) - j->mean[c]) * gain + shift;
        if (j->s->adds) v += get(&x->in[5], place(j->s, &x->in[5], c, p));
        mp_store_float(y->data, y->dtype, place(j->s, y, c, p), v < 0 ? 0 : v);
    }
}

/* Writes or adds a gradient of input i, if it is wanted. */
static void put(const job *j, int i, int64_t at, float value)
{
    const mp_array *d = &j->x->d_in[i];
    if (!d->dtype) return;
    mp_store_float(d->data, d->dtype, at, value + (j->x->adds & j->call->adds & MP_BIT(i) ? get(d, at) : 0));
}

/* A byte of bits, each whether an element of the output is above zero, as they lie in memory. */
static void mark(void *data, int64_t byte)
{
    const job *j = data;
    const mp_array *y = &j->x->out[0];
    const int64_t n = mp_array_elements(y);
    unsigned bits = 0;
    for (int64_t k = 8 * byte; k < n && k < 8 * byte + 8; k++) bits |= (get(y, k) > 0 ? 1u : 0u) << k % 8;
    ((uint8_t *)j->x->extra[2].data)[byte] = (uint8_t)bits;
}

static void backward(void *data, int64_t c)
{
    const job *j = data;
    const mp_operands *x = j->x;
    const mp_array *v = &x->in[0], *dy = &x->d_out[0];
    const uint8_t *positive = x->extra[2].data;
    const double n = (double)j->s->positions;
    const float unit = j->rstd[c], gain = unit * get(&x->in[1], c), shift = j->s->adds ? 0 : get(&x->in[2], c);
    double sum = 0, product = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int64_t p = 0; p < j->s->positions; p++) {
            const float d = get(v, place(j->s, v, c, p)) - j->mean[c];
            const int64_t at = place(j->s, dy, c, p);
            const bool counts = j->s->adds ? positive[at / 8] >> at % 8 & 1 : d * gain + shift > 0;
            const float g = counts ? get(dy, at) : 0;
            if (turn == 0) {
                sum += g;
                product += (double)g * d * unit;
                continue;
            }
            put(j, 0, place(j->s, v, c, p), (float)(gain * (g - sum / n - (double)d * unit * product / n)));
            if (j->s->adds) put(j, 5, place(j->s, v, c, p), g);
        }
    put(j, 1, c, (float)product);
    put(j, 2, c, (float)sum);
}

static mp_status run(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const state *s = call->state;
    float *statistics = x->workspace;
    job j = {.s = s, .call = call, .x = x, .moves = s->from_batch && x->mode == MP_MODE_TRAIN && run->first_run};
    (void)err;
    j.mean = x->extra[0].data ? x->extra[0].data : statistics;
    j.rstd = x->extra[1].data ? x->extra[1].data : statistics + s->channels;
    mp_parallel(s->channels, s->positions, x->is_backward ? backward : forward, &j);
    if (s->adds && !x->is_backward && x->extra[2].data) mp_parallel((mp_array_elements(&x->out[0]) + 7) / 8, 8, mark, &j);
    return MP_OK;
}

mp_status mp_batch_activation_prepare(const mp_operands *x, mp_call *call, mp_error *err)
{
    const mp_array *a = &x->in[0];
    MP_CHECK(mp_normalization_types(x, err));
    MP_STATE(state, s, call, err);
    call->run = run;
    s->adds = x->n_in > 5;
    s->from_batch = x->mode == MP_MODE_AS_WRITTEN ? mp_operator_int(x->op, "training_mode", 0) != 0 : x->mode == MP_MODE_TRAIN;
    s->channels = a->rank > 1 ? a->dims[1] : 1;
    s->positions = s->channels ? mp_array_elements(a) / s->channels : 0;
    s->area = a->dims[0] ? s->positions / a->dims[0] : 1;
    s->epsilon = mp_operator_float(x->op, "epsilon", 1e-5f);
    s->momentum = mp_operator_float(x->op, "momentum", 0.9f);
    call->workspace_bytes = 2 * s->channels * (int64_t)sizeof(float);
    call->adds = x->adds;
    return MP_OK;
}
