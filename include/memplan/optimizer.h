/* optimizer.h - how a parameter follows its gradient: SGD, momentum, Adam, AdamW; learning-rate schedules.
 *
 * Formulas as in PyTorch's optimizers. SGD: w -= lr * (g + wd * w). Momentum: v = mu * v + g + wd * w, w -= lr * v (Nesterov: w
 * -= lr * (g + wd * w + mu * v)). Adam (Kingma, Ba 2015): g += wd * w, m and v the moving averages, w -= lr / (1 - b1^t) * m /
 * (sqrt(v) / sqrt(1 - b2^t) + eps). AdamW (Loshchilov, Hutter 2019): w *= 1 - lr * wd first, then Adam without wd.
 */
#pragma once

#include "memplan/training.h"

typedef enum mp_rate_schedule { MP_RATE_CONSTANT, MP_RATE_COSINE, MP_RATE_LINEAR, MP_N_RATES } mp_rate_schedule;
/* Returns "constant", "cosine" or "linear". */
const char *mp_rate_schedule_name(mp_rate_schedule schedule);
int mp_rate_schedule_find(const char *name); /* -1: none */

typedef struct mp_hyper {
    mp_optimizer optimizer;
    double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
    bool nesterov;
    mp_rate_schedule schedule;     /* of the rate after the warm-up */
    int64_t warmup_steps, n_steps; /* the rate rises linearly over the first, and reaches 0 (cosine, linear) after the second */
} mp_hyper;

/* Returns the defaults of an optimizer: Adam(W) 1e-3, 0.9, 0.999, 1e-8, decay 0.01 for AdamW; SGD and momentum 0.01, 0.9. */
mp_hyper mp_hyper_default(mp_optimizer optimizer);
/* Checks the settings. MP_INVALID: a value out of its range, named. */
mp_status mp_hyper_check(const mp_hyper *hyper, mp_error *err);
/* Returns the learning rate of step t = 0, 1, ... */
double mp_learning_rate(const mp_hyper *hyper, int64_t step);
