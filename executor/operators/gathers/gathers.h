/* gathers.h - operators that select elements by index (GatherElements) or rows (Gather, GatherND, Compress), and MaxUnpool,
 * which writes elements by index. For every backend.
 *
 * Backward of the first four sets the table's gradient to zero, unless the call accumulates, and adds the gradient of each
 * selected element to it. */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* Make an mp_index_plan the call's state; the backend's indexer runs it. MP_UNSUPPORTED: as mp_indices_check; MP_INVALID:
 * shapes do not match, or the workspace is too large; MP_NOMEM. */
mp_status mp_gather_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_gather_nd_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_gather_elements_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_compress_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
/* Writes each value to the position from which MaxPool selected it; all other elements are zero. If several values have one
 * position, the last one remains. Indices count the elements of the pooled tensor row-major; elements beyond it, due to
 * output_shape, are zero. */
mp_status mp_max_unpool_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
