/* scatters.h - operators that place updates into a copy of their data: Scatter, ScatterElements, ScatterND. For every backend.
 *
 * Where several updates name one element, they are reduced with it in their order (without a reduction the last one stays).
 * Gradients of plain scattering and of adding: the updates' is picked, the data's is the output's, with zeros where an update
 * took the place.
 *
 * The other reductions: the data's element and the updates that name it are the factors of one result. The gradient of a
 * largest or smallest one goes in equal shares to all factors that equal it (as PyTorch's scatter_reduce has it); that of a
 * product is the product of the other factors, zeros counted apart. The factors are reduced once more (in products with ones
 * for zeros), then the marks of the factors that are counted, by addition; then each factor has its share.
 */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* An elementwise step of those gradients, in the order of memory: a part is as what the factor takes part in the result; a mark
 * is 1 for a factor that is counted, else 0; a share is the factor's gradient. */
typedef enum mp_scatter_step_kind { MP_SCATTER_PART, MP_SCATTER_MARK, MP_SCATTER_SHARE } mp_scatter_step_kind;
typedef struct mp_scatter_step {
    mp_scatter_step_kind step;
    mp_index_reduction how;
    mp_array factors, dy, to; /* dy: the gradient of the results, of shares */
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

/* The plan, and room for operands that have to be saved, become the call's; the backend's indexer runs it. MP_UNSUPPORTED as
 * mp_indices_check, or a reduction that this type, or the gradient, does not have; MP_INVALID: shapes that do not fit;
 * MP_NOMEM. */
mp_status mp_scatter_elements_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_scatter_nd_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
