/* gathers.h - operators that select elements by index (GatherElements) or rows (Gather, GatherND, Compress), and MaxUnpool,
 * which writes elements by index. For every backend.
 *
 * Backward of the four selecting operators sets the gradient of the table to zero, unless the call accumulates. In both cases
 * backward then adds the gradient of each selected element to the gradient of the table. */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* Prepare calls: the state of a call is an mp_index_plan, which the backend's indexer runs. MP_UNSUPPORTED: as
 * mp_indices_check; MP_INVALID: shapes do not match, or the workspace is too large; MP_NOMEM. */
mp_status mp_gather_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_gather_nd_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_gather_elements_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_compress_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
/* Writes each value to the position from which MaxPool selected it; all other elements are zero. If several values have one
 * position, the last one remains. Indices count the elements of the pooled tensor row-major; if output_shape is larger than
 * the pooled tensor, the additional elements are zero. */
mp_status mp_max_unpool_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
