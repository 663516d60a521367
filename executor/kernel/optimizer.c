/* optimizer.c - defaults and limits of optimizers, and the learning rate at a given step. */
#include "executor/kernel/optimizer.h"

#include <math.h>
#include <string.h>

static const char *const schedule_names[] = {"constant", "cosine", "linear"};
static const double pi = 3.14159265358979323846;

const char *mp_rate_schedule_name(mp_rate_schedule schedule)
{
    return schedule_names[schedule];
}

int mp_rate_schedule_find(const char *name)
{
    for (int k = 0; k < MP_N_RATES; k++)
        if (!strcmp(schedule_names[k], name)) return k;
    return -1;
}

mp_hyper mp_hyper_default(mp_optimizer optimizer)
{
    bool adam = optimizer == MP_OPTIMIZER_ADAM || optimizer == MP_OPTIMIZER_ADAMW;
    return (mp_hyper){.optimizer = optimizer,
                      .learning_rate = adam ? 1e-3 : 1e-2,
                      .momentum = 0.9,
                      .beta1 = 0.9,
                      .beta2 = 0.999,
                      .epsilon = 1e-8,
                      .weight_decay = optimizer == MP_OPTIMIZER_ADAMW ? 0.01 : 0};
}

mp_status mp_hyper_check(const mp_hyper *h, mp_error *err)
{
    MP_ENSURE(isfinite(h->learning_rate) && h->learning_rate >= 0, err, MP_INVALID, "the learning rate %g is not a number >= 0",
              h->learning_rate);
    MP_ENSURE(h->momentum >= 0 && h->momentum < 1, err, MP_INVALID, "the momentum %g is not in [0, 1)", h->momentum);
    MP_ENSURE(h->beta1 >= 0 && h->beta1 < 1 && h->beta2 >= 0 && h->beta2 < 1, err, MP_INVALID,
              "the betas %g and %g are not in [0, 1)", h->beta1, h->beta2);
    MP_ENSURE(h->epsilon > 0 && isfinite(h->epsilon), err, MP_INVALID, "epsilon is %g, but it must be over 0", h->epsilon);
    MP_ENSURE(h->weight_decay >= 0 && isfinite(h->weight_decay), err, MP_INVALID, "the weight decay %g is not a number >= 0",
              h->weight_decay);
    MP_ENSURE(h->warmup_steps >= 0 && h->n_steps >= 0, err, MP_INVALID, "the schedule has a negative number of steps");
    return MP_OK;
}

double mp_learning_rate(const mp_hyper *h, int64_t step)
{
    if (step < h->warmup_steps) return h->learning_rate * (double)(step + 1) / (double)h->warmup_steps;
    int64_t length = h->n_steps - h->warmup_steps;
    if (h->schedule == MP_RATE_CONSTANT || length <= 0) return h->learning_rate;
    double part = (double)(step - h->warmup_steps) / (double)length;
    if (part > 1) part = 1;
    return h->learning_rate * (h->schedule == MP_RATE_COSINE ? (1 + cos(pi * part)) / 2 : 1 - part);
}

mp_update_factors mp_update_factors_at(const mp_hyper *h, int64_t step)
{
    double rate = mp_learning_rate(h, step), t = (double)step + 1;
    bool decoupled = h->optimizer == MP_OPTIMIZER_ADAMW;
    return (mp_update_factors){.optimizer = h->optimizer,
                               .nesterov = h->nesterov,
                               .rate = (float)rate,
                               .momentum = (float)h->momentum,
                               .beta1 = (float)h->beta1,
                               .beta2 = (float)h->beta2,
                               .rest1 = (float)(1 - h->beta1),
                               .rest2 = (float)(1 - h->beta2),
                               .epsilon = (float)h->epsilon,
                               .decay = (float)(decoupled ? 1 - rate * h->weight_decay : h->weight_decay),
                               .step_size = (float)(rate / (1 - pow(h->beta1, t))),
                               .root_correction = (float)(1 / sqrt(1 - pow(h->beta2, t)))};
}
