/* optimizer.h - one update of a parameter, as backends see it. Optimizers and rates are in memplan/optimizer.h. */
#pragma once

#include "estimator/training/training.h"
#include "memplan/optimizer.h"

/* Per-step constants of an optimizer update, the same for all parameters. */
typedef struct mp_update_factors {
    mp_optimizer optimizer;
    bool nesterov;
    float rate, momentum, beta1, beta2, epsilon, decay; /* decay: AdamW: 1 - lr * wd, others: wd */
    float rest1, rest2;                                 /* 1 - beta, which a float of beta has lost */
    float step_size, root_correction;                   /* Adam: lr / (1 - b1^t), 1 / sqrt(1 - b2^t) */
} mp_update_factors;
mp_update_factors mp_update_factors_at(const mp_hyper *hyper, int64_t step);

/* One parameter. State is moments, one after the other, then for 16-bit parameters the float master copy: all float. */
typedef struct mp_update {
    mp_dtype dtype; /* of parameter and gradient */
    int64_t n;      /* elements, those that pad a layout included */
    void *parameter;
    const void *gradient;
    float *state;      /* NULL: none */
    const float *clip; /* the factor on the gradient; NULL: 1 */
    int64_t first;     /* for the backend's own use: where its work begins among that of a list */
} mp_update;
