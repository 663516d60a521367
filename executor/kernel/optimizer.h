/* optimizer.h - the arithmetic of a parameter update, which all backends use. memplan/optimizer.h defines optimizers and
 * learning rates. */
#pragma once

#include <math.h>

#include "estimator/training/training.h"
#include "executor/kernel/element.h"
#include "memplan/optimizer.h"

/* Per-step constants of an optimizer update, the same for all parameters. */
typedef struct mp_update_factors {
    mp_optimizer optimizer;
    bool nesterov;
    float rate, momentum, beta1, beta2, epsilon,
        decay; /* decay: 1 - lr * weight decay for AdamW, the weight decay itself for other optimizers */
    /* 1 - beta1 and 1 - beta2, computed from the double values: the float betas have already lost digits */
    float rest1, rest2;
    float step_size, root_correction; /* for Adam in step t: lr / (1 - beta1^t), and 1 / sqrt(1 - beta2^t) */
} mp_update_factors;
mp_update_factors mp_update_factors_at(const mp_hyper *hyper, int64_t step);

/* The update of one parameter. `state` holds the moments one after the other. For 16-bit parameters the master copy follows.
 * Moments and master copy are floats. */
typedef struct mp_update {
    mp_dtype dtype; /* type of parameter and gradient */
    int64_t n;      /* number of elements of the parameter, including the padding of its layout */
    void *parameter;
    const void *gradient;
    float *state;      /* moments, then the master copy; NULL: the parameter has no optimizer state */
    const float *clip; /* the gradient is multiplied by this number (gradient clipping); NULL: by 1 */
    int64_t first;     /* used by the backend only: number of blocks of work that the earlier updates in the list need */
} mp_update;

/* ---- the update of one element, by the formulas in memplan/optimizer.h */

/* Return the new value of parameter w for the clipped gradient g, and update the moments m and v. */
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

/* Returns the new value of parameter w under Adam or AdamW, and updates the moments m and v. */
MP_INLINE float mp_adam_step(const mp_update_factors *f, float g, float w, float *m, float *v)
{
    float coupled = f->optimizer == MP_OPTIMIZER_ADAM ? f->decay : 0, kept = f->optimizer == MP_OPTIMIZER_ADAMW ? f->decay : 1;
    float d = g + coupled * w, first = f->beta1 * *m + f->rest1 * d, second = f->beta2 * *v + f->rest2 * d * d;
    *m = first;
    *v = second;
    return kept * w - f->step_size * first / (sqrtf(second) * f->root_correction + f->epsilon);
}

/* Returns the factor that scales a gradient of norm `norm` to a norm of at most `clip_norm`, as torch.nn.utils.clip_grad_norm_
 * does. */
MP_INLINE float mp_clip_factor(double norm, double clip_norm)
{
    return norm > clip_norm ? (float)(clip_norm / (norm + 1e-6)) : 1.0f;
}
