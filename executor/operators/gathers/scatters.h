/* scatters.h - operators that write updates into a copy of their data: Scatter, ScatterElements, ScatterND. Every backend uses
 * this code.
 *
 * If several updates select one element, they are combined with the element in their order; without a reduction, the last
 * update remains. Gradients for addition, and without a reduction: the gradient of an update is the output's gradient at the
 * selected element. The gradient of the data is the output's gradient; without a reduction it is zero at updated elements.
 *
 * Gradients for maximum, minimum and product: the data's element and the updates that select it are called the factors of one
 * result. A maximum or minimum divides its gradient equally among all factors that equal it, as PyTorch's scatter_reduce does.
 * In a product, the derivative by a factor is the product of all other factors; zeros are counted separately. Three steps
 * compute these gradients. First the factors are combined again; in products, zeros are replaced by ones. Then the relevant
 * factors are counted. Finally each factor gets its share of the gradient. */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* An elementwise step of the gradient of a maximum, minimum or product. PART writes the factor (1 for a zero in a product).
 * MARK writes 1 for a relevant factor, else 0. In a product, relevant factors are zeros; otherwise they are the factors that
 * equal the result. SHARE writes the gradient. */
typedef enum mp_scatter_step_kind { MP_SCATTER_PART, MP_SCATTER_MARK, MP_SCATTER_SHARE } mp_scatter_step_kind;
typedef struct mp_scatter_step {
    mp_scatter_step_kind step;
    mp_index_reduction how;
    /* factors: input of the step; dy: for SHARE only, the gradient of each factor's result; to: output */
    mp_array factors, dy, to;
    const float *results, *marks;
} mp_scatter_step;

MP_INLINE float mp_scatter_share(mp_index_reduction how, float factor, float result, float dy, float marks)
{
    if (how != MP_INDEX_MULTIPLY) return factor == result ? dy / marks : 0;
    if (factor == 0) return marks == 1 ? dy * result : 0;
    return marks == 0 ? dy * (result / factor) : 0;
}

MP_INLINE void mp_scatter_step_item(const mp_scatter_step *s, int64_t k)
{
    const float factor = mp_array_load(&s->factors, k);
    const bool product = s->how == MP_INDEX_MULTIPLY;
    if (s->step == MP_SCATTER_PART)
        mp_array_store(&s->to, k, product && factor == 0 ? 1 : factor);
    else if (s->step == MP_SCATTER_MARK)
        mp_array_store(&s->to, k, (product ? factor == 0 : factor == s->results[k]) ? 1 : 0);
    else
        mp_array_store(&s->to, k, mp_scatter_share(s->how, factor, s->results[k], mp_array_load(&s->dy, k), s->marks[k]));
}

/* Prepare calls that the backend's indexer runs. The workspace has room for copies of inputs that the output overwrites.
 * MP_UNSUPPORTED: as mp_indices_check, or the reduction has no kernel for this type, or no gradient. MP_INVALID: shapes do not
 * match, or the workspace is too large. MP_NOMEM. */
mp_status mp_scatter_elements_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_scatter_nd_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
