/* gathers.h - operators that pick elements by index, GatherElements and those of rows: Gather, GatherND, Compress; and
 * MaxUnpool, which puts them back. For every backend.
 *
 * Their gradient adds what belongs to each element of the table to it; what no index names is zeroed before, unless the
 * gradient is to be added.
 */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* An mp_index_plan becomes the call's state, which the backend's indexer runs. MP_UNSUPPORTED as mp_indices_check; MP_INVALID:
 * shapes that do not fit; MP_NOMEM. */
mp_status mp_gather_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_gather_nd_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_gather_elements_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_compress_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
/* Values go back to where MaxPool's indices say they were; everything else is zero, and of values for one place the last one
 * stays. Indices count the elements row-major of the tensor that was pooled: a larger output (output_shape) has rows of zeros
 * more. */
mp_status mp_max_unpool_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
