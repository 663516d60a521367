/* optimizer.h - one update of a parameter, as backends see it. Optimizers and rates are in memplan/optimizer.h. */
#pragma once

#include <math.h>

#include "estimator/training/training.h"
#include "executor/kernel/element.h"
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

/* ---- what a step makes of one element. The formulas are memplan/optimizer.h's. */

/* The new value of a parameter w with gradient g, which has been clipped; moments m and v change. */
MP_INLINE float mp_sgd_step(const mp_update_factors *f, float g, float w)
{
    return w - f->rate * (g + f->decay * w);
}

MP_INLINE float mp_momentum_step(const mp_update_factors *f, float g, float w, float *m)
{
    float d = g + f->decay * w, moved = f->momentum * *m + d, nesterov = f->nesterov;
    *m = moved;
    return w - f->rate * (nesterov != 0 ? d + f->momentum * moved : moved);
}

/* Adam and AdamW. */
MP_INLINE float mp_adam_step(const mp_update_factors *f, float g, float w, float *m, float *v)
{
    float coupled = f->optimizer == MP_OPTIMIZER_ADAM ? f->decay : 0, kept = f->optimizer == MP_OPTIMIZER_ADAMW ? f->decay : 1;
    float d = g + coupled * w, first = f->beta1 * *m + f->rest1 * d, second = f->beta2 * *v + f->rest2 * d * d;
    *m = first;
    *v = second;
    return kept * w - f->step_size * first / (sqrtf(second) * f->root_correction + f->epsilon);
}

/* The factor that brings a norm down to the limit; as torch.nn.utils.clip_grad_norm_. */
MP_INLINE float mp_clip_factor(double norm, double clip_norm)
{
    return norm > clip_norm ? (float)(clip_norm / (norm + 1e-6)) : 1.0f;
}
