/* optimizer.h - optimizers and learning-rate schedules: SGD, momentum, Adam, AdamW.
 *
 * The formulas are those of PyTorch's optimizers. w is the parameter, g the gradient, lr the learning rate and wd the weight
 * decay:
 *
 * - SGD: w -= lr * (g + wd * w).
 * - Momentum: v = mu * v + g + wd * w, then w -= lr * v. Nesterov: w -= lr * (g + wd * w + mu * v).
 * - Adam (Kingma, Ba 2015): g += wd * w; m and v are the moving averages; w -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t)
 *   + eps).
 * - AdamW (Loshchilov, Hutter 2019): w *= 1 - lr * wd, then Adam without wd. */
#pragma once

#include "memplan/training.h"

typedef enum mp_rate_schedule { MP_RATE_CONSTANT, MP_RATE_COSINE, MP_RATE_LINEAR, MP_N_RATES } mp_rate_schedule;
/* Returns "constant", "cosine" or "linear". */
const char *mp_rate_schedule_name(mp_rate_schedule schedule);
int mp_rate_schedule_find(
    const char *name); /* returns the learning-rate schedule with this name; -1: no schedule has this name */

typedef struct mp_hyper {
    mp_optimizer optimizer;
    double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
    bool nesterov;
    mp_rate_schedule schedule;     /* schedule after the warm-up */
    int64_t warmup_steps, n_steps; /* the learning rate rises linearly during the first warmup_steps steps. The cosine and
                                      linear schedules reach 0 after n_steps steps */
} mp_hyper;

/* Returns an optimizer's defaults. Learning rate: 1e-3 for Adam and AdamW, 0.01 for SGD and momentum. Momentum 0.9. Betas 0.9
 * and 0.999. Epsilon 1e-8. Weight decay: 0.01 for AdamW, else 0. */
mp_hyper mp_hyper_default(mp_optimizer optimizer);
/* Checks the hyperparameters. MP_INVALID: a value is out of range; the message names the value. */
mp_status mp_hyper_check(const mp_hyper *hyper, mp_error *err);
/* Returns the learning rate of training step t = 0, 1, ... */
double mp_learning_rate(const mp_hyper *hyper, int64_t step);
