/* scatter_shares_cuda.h - the elementwise steps of operators/gathers/scatter_shares.h on the GPU. All only enqueue, and go
 * through elements in the order of memory. Private to executor/cuda/. */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/kernel/array.h"
#include "executor/operators/gathers/meeting.h"

/* Parts, results and marks are FLOAT; factors, dy and the gradient FLOAT or BFLOAT16. */
void mp_cuda_scatter_parts(mp_meeting how, const mp_array *factors, const mp_array *parts);
void mp_cuda_scatter_marks(mp_meeting how, const mp_array *factors, const mp_array *results, const mp_array *marks);
void mp_cuda_scatter_shares(mp_meeting how, const mp_array *factors, const mp_array *results, const mp_array *dy,
                            const mp_array *marks, const mp_array *gradient);

MP_C_END
