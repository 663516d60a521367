/* scatter_shares.h - the gradients of scattering that keeps the largest, the smallest or the product, for every backend.
 *
 * The data's element and the updates that name it are the factors of one result. The gradient of a largest or smallest one goes
 * in equal shares to all factors that equal it (as PyTorch's scatter_reduce has it); that of a product is the product of the
 * other factors, zeros counted apart. A backend lets the factors meet once more (in products with ones for zeros), then the
 * marks of the factors that are counted, by addition; then each factor has its share.
 */
#pragma once

#include "executor/kernel/element.h"
#include "executor/operators/gathers/meeting.h"

/* As what the factor takes part in the result. */
MP_INLINE float mp_scatter_part(mp_meeting how, float factor)
{
    return how == MP_MEET_MULTIPLY && factor == 0 ? 1 : factor;
}

/* Is the factor one of those that are counted? */
MP_INLINE float mp_scatter_mark(mp_meeting how, float factor, float result)
{
    return (how == MP_MEET_MULTIPLY ? factor == 0 : factor == result) ? 1 : 0;
}

/* The factor's gradient. dy: the result's; marks: how many of its factors are counted. */
MP_INLINE float mp_scatter_share(mp_meeting how, float factor, float result, float dy, float marks)
{
    if (how != MP_MEET_MULTIPLY) return factor == result ? dy / marks : 0;
    if (factor == 0) return marks == 1 ? dy * result : 0;
    return marks == 0 ? dy * (result / factor) : 0;
}
