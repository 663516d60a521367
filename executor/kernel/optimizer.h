/* optimizer.h - the update of one parameter, as backends run it. memplan/optimizer.h defines optimizers and rates. */
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
        decay;                        /* decay: 1 - lr * weight decay for AdamW, the weight decay itself for other optimizers */
    float rest1, rest2;               /* 1 - beta, computed in double, because a float beta has already lost digits */
    float step_size, root_correction; /* for Adam: lr / (1 - b1^t), and 1 / sqrt(1 - b2^t) */
} mp_update_factors;
mp_update_factors mp_update_factors_at(const mp_hyper *hyper, int64_t step);

/* The update of one parameter. `state` holds the moments one after the other. For 16-bit parameters the master copy follows.
 * All of them are floats. */
typedef struct mp_update {
    mp_dtype dtype; /* type of parameter and gradient */
    int64_t n;      /* number of elements, including the padding of a layout */
    void *parameter;
    const void *gradient;
    float *state;      /* NULL: the optimizer has no state */
    const float *clip; /* factor on the gradient; NULL: 1 */
    int64_t first;     /* private to the backend: index of this update's first piece of work in a list of updates */
} mp_update;

/* ---- the update of one element, by the formulas in memplan/optimizer.h */

/* Returns the new value of parameter w for the clipped gradient g, and updates the moments m and v. */
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

/* As mp_sgd_step, for Adam and AdamW. */
MP_INLINE float mp_adam_step(const mp_update_factors *f, float g, float w, float *m, float *v)
{
    float coupled = f->optimizer == MP_OPTIMIZER_ADAM ? f->decay : 0, kept = f->optimizer == MP_OPTIMIZER_ADAMW ? f->decay : 1;
    float d = g + coupled * w, first = f->beta1 * *m + f->rest1 * d, second = f->beta2 * *v + f->rest2 * d * d;
    *m = first;
    *v = second;
    return kept * w - f->step_size * first / (sqrtf(second) * f->root_correction + f->epsilon);
}

/* Returns the factor that scales a gradient of this norm to the norm limit, as torch.nn.utils.clip_grad_norm_ does. */
MP_INLINE float mp_clip_factor(double norm, double clip_norm)
{
    return norm > clip_norm ? (float)(clip_norm / (norm + 1e-6)) : 1.0f;
}
