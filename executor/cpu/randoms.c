/* randoms.c - dropout, and tensors of random numbers, drawn from executor/philox by (seed, step, operator, element).
 *
 * The element is counted in the order of memory; layouts are fixed, so forward, backward and every recomputation draw the same.
 */
#include <math.h>
#include <string.h>

#include "executor/cpu/elementwise.h"
#include "executor/cpu/kernels.h"
#include "executor/dropout.h"
#include "executor/philox.h"

typedef struct job {
    const mp_dropout *s;
    const mp_operands *x;
    const mp_run *run;
    const mp_array *from, *to;
    const uint8_t *mask; /* kept by forward: read instead of drawing again */
    uint8_t *keeps;      /* where forward keeps it, NULL: nowhere */
    uint8_t *given;      /* ONNX's second output, NULL: not there */
} job;

MP_VECTOR static void drop(const float *x, const float *u, int64_t n, float ratio, float factor, float *out)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = u[k] >= ratio ? x[k] * factor : 0;
}

MP_VECTOR static void drop_masked(const float *x, const uint8_t *mask, int64_t n, float factor, float *out)
{
    MP_INDEPENDENT
    for (int64_t k = 0; k < n; k++) out[k] = mask[k] ? x[k] * factor : 0;
}

static void drop_block(void *data, int64_t k)
{
    const job *j = data;
    float u[MP_BLOCK], x_room[MP_BLOCK], y_room[MP_BLOCK];
    int64_t at = k * MP_BLOCK, n = mp_block_size(j->s->n, k);
    float factor = mp_dropout_factor(j->s->ratio);
    const float *x = mp_floats(j->from->data, j->from->dtype, at, n, x_room);
    float *y = mp_floats_room(j->to->data, j->to->dtype, at, y_room);
    if (j->mask) {
        drop_masked(x, j->mask + at, n, factor, y);
    } else {
        mp_random_uniforms(j->run->seed, j->run->step, (uint32_t)j->x->op_index, (uint64_t)at, n, u);
        drop(x, u, n, j->s->ratio, factor, y);
        for (int64_t e = 0; j->keeps && e < n; e++) j->keeps[at + e] = u[e] >= j->s->ratio;
        for (int64_t e = 0; j->given && e < n; e++) j->given[at + e] = u[e] >= j->s->ratio;
    }
    mp_floats_done(j->to->data, j->to->dtype, at, n, y);
}

static void copy_row(const double *p, int64_t n, const float *const *in, float *out)
{
    (void)p;
    memmove(out, in[0], (size_t)n * sizeof *out);
}

static mp_status run_dropout(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    const mp_dropout *s = call->state;
    job j = {.s = s, .x = x, .run = run, .from = &x->in[0], .to = &x->out[0]};
    (void)err;
    if (x->is_backward) {
        j.from = &x->d_out[0];
        j.to = &x->d_in[0];
    } else if (x->n_out > 1) {
        j.given = x->out[1].data;
    }
    if (!s->drops) {
        mp_elementwise(copy_row, NULL, &j.from, 1, j.to);
        if (j.given) memset(j.given, 1, (size_t)s->n);
        return MP_OK;
    }
    if (x->alternative == 1) {
        if (x->is_backward)
            j.mask = x->extra[0].data;
        else
            j.keeps = x->extra[0].data;
    }
    mp_parallel(mp_blocks(s->n), MP_BLOCK * 4, drop_block, &j);
    return MP_OK;
}

static mp_status prepare_dropout(const mp_operands *x, mp_call *call, mp_error *err)
{
    mp_status st = MP_OK;
    MP_REQUIRE(call->state = mp_alloc(1, sizeof(mp_dropout)), err, MP_NOMEM, "out of memory");
    call->run = run_dropout;
    MP_TRY(mp_dropout_read(x, call->state, err));
done:
    return st;
}

/* Sources: every element from its own words. */
typedef enum source { UNIFORM, NORMAL, BERNOULLI } source;

typedef struct source_state {
    source source;
    double a, b; /* low and high, mean and scale */
    int64_t n;
} source_state;

typedef struct source_job {
    const source_state *s;
    const mp_operands *x;
    const mp_run *run;
} source_job;

static double uniform(const source_job *j, uint64_t element)
{
    return (double)mp_random_uniform(j->run->seed, j->run->step, (uint32_t)j->x->op_index, element);
}

static void store(const mp_array *a, int64_t at, double value)
{
    float single = (float)value;
    if (a->dtype == MP_DTYPE_FLOAT)
        ((float *)a->data)[at] = single;
    else if (a->dtype == MP_DTYPE_DOUBLE)
        ((double *)a->data)[at] = value;
    else if (a->dtype == MP_DTYPE_BFLOAT16)
        mp_floats_done(a->data, a->dtype, at, 1, &single);
    else if (mp_dtype_bits(a->dtype) == 64)
        ((int64_t *)a->data)[at] = (int64_t)value;
    else if (mp_dtype_bits(a->dtype) == 32)
        ((int32_t *)a->data)[at] = (int32_t)value;
    else
        ((int8_t *)a->data)[at] = (int8_t)value;
}

static void source_block(void *data, int64_t k)
{
    const source_job *j = data;
    const source_state *s = j->s;
    for (int64_t e = k * MP_BLOCK; e < k * MP_BLOCK + mp_block_size(s->n, k); e++) {
        double value;
        if (s->source == UNIFORM) {
            value = s->a + (s->b - s->a) * uniform(j, (uint64_t)e);
        } else if (s->source == NORMAL) { /* Box, Muller 1958 */
            double u = 1 - uniform(j, 2 * (uint64_t)e), v = uniform(j, 2 * (uint64_t)e + 1);
            value = s->a + s->b * sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
        } else {
            float room;
            value = uniform(j, (uint64_t)e) < (double)*mp_floats(j->x->in[0].data, j->x->in[0].dtype, e, 1, &room);
        }
        store(&j->x->out[0], e, value);
    }
}

static mp_status run_source(const mp_call *call, const mp_operands *x, const mp_run *run, mp_error *err)
{
    source_job j = {call->state, x, run};
    (void)err;
    mp_parallel(mp_blocks(j.s->n), MP_BLOCK * 8, source_block, &j);
    return MP_OK;
}

static mp_status prepare_source(const mp_operands *x, mp_call *call, source source, const char *a, double a_otherwise,
                                const char *b, double b_otherwise, mp_error *err)
{
    mp_status st = MP_OK;
    source_state *s;
    if (mp_dtype_bits(x->out[0].dtype) < 8 || x->out[0].dtype == MP_DTYPE_FLOAT16) return MP_NO_KERNEL(x, err, "its type");
    MP_REQUIRE(s = mp_alloc(1, sizeof *s), err, MP_NOMEM, "out of memory");
    call->state = s;
    call->run = run_source;
    *s = (source_state){.source = source, .n = mp_array_elements(&x->out[0])};
    s->a = mp_operator_float(x->op, a, a_otherwise);
    s->b = mp_operator_float(x->op, b, b_otherwise);
done:
    return st;
}

static mp_status prepare_uniform(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_source(x, call, UNIFORM, "low", 0, "high", 1, err);
}
static mp_status prepare_normal(const mp_operands *x, mp_call *call, mp_error *err)
{
    return prepare_source(x, call, NORMAL, "mean", 0, "scale", 1, err);
}
static mp_status prepare_bernoulli(const mp_operands *x, mp_call *call, mp_error *err)
{
    if (x->in[0].dtype != MP_DTYPE_FLOAT && x->in[0].dtype != MP_DTYPE_BFLOAT16) return MP_NO_KERNEL(x, err, "its type");
    return prepare_source(x, call, BERNOULLI, "", 0, "", 0, err);
}

const mp_kernel mp_cpu_randoms[] = {
    {"Dropout", "", prepare_dropout, prepare_dropout},
    {"RandomUniform", "", prepare_uniform, NULL},
    {"RandomUniformLike", "", prepare_uniform, NULL},
    {"RandomNormal", "", prepare_normal, NULL},
    {"RandomNormalLike", "", prepare_normal, NULL},
    {"Bernoulli", "", prepare_bernoulli, NULL},
    {0},
};
