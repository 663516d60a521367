/* randoms_cpu.c - dropout, tensors of random numbers, and constants, ranges and windows (randoms.h) on the CPU. */
#include <string.h>

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"
#include "executor/operators/elementwise/elementwise_cpu.h"
#include "executor/operators/randoms/randoms.h"

typedef struct job {
    const mp_dropout *s;
    const mp_operands *x;
    const mp_array *from, *to;
    const uint8_t *mask; /* in backward: the mask that forward saved; NULL: random numbers are drawn again */
    uint8_t *keeps;      /* in forward: address at which the mask is saved for backward; NULL: not saved */
    uint8_t *given;      /* output 1 of Dropout, the mask; NULL: the output is absent */
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
        mp_dealt_uniforms(j->x, &j->s->dealt, at, n, u);
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

static mp_status run_dropout(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_dropout *s = call->state;
    job j = {.s = s, .x = x, .from = &x->in[0], .to = &x->out[0]};
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
    mp_parallel(mp_block_count(s->n), MP_BLOCK * 4, drop_block, &j);
    return MP_OK;
}

MP_PREPARE_TO_RUN(prepare_dropout, mp_dropout_prepare, run_dropout)

MP_BODY_LOOP(mp_random_source, mp_random_source_item)

static mp_status run_source(const mp_call *call, const mp_operands *x, mp_error *err)
{
    return mp_random_source_run(call, x, &x->run.seed, &x->run.step, mp_random_source_item_loop, err);
}

MP_PREPARE_TO_RUN(prepare_source, mp_random_source_prepare, run_source)

MP_BODY_LOOP(mp_source, mp_source_item)

static mp_status run_known(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_source s = mp_source_of(call, x);
    return mp_source_item_loop(&s, mp_array_elements(&s.out), 1, err);
}

MP_PREPARE_TO_RUN(prepare_known, mp_source_prepare, run_known)

#define RANDOM(kind) {kind, "", prepare_source, NULL},
#define KNOWN(kind) {kind, "", prepare_known, NULL},
const mp_kernel mp_cpu_randoms[] = {{"Dropout", "", prepare_dropout, prepare_dropout},
                                    MP_RANDOM_SOURCES(RANDOM) MP_SOURCES(KNOWN){0}};
