/* update_formulas.h - what an optimizer's step makes of one element, for every backend. The formulas are optimizer.h's. */
#pragma once

#include <math.h>

#include "executor/kernel/element.h"
#include "executor/kernel/optimizer.h"

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
