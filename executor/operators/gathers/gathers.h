/* gathers.h - operators that pick elements by index (GatherElements) or rows (Gather, GatherND, Compress), and MaxUnpool, which
 * writes elements back by index. For every backend.
 *
 * Backward of the first four sets the table's gradient to zero, unless the call adds to it, and adds the gradient of each
 * picked element to it.
 */
#pragma once

#include "executor/operators/gathers/index_plan.h"

/* Make an mp_index_plan, which the backend's indexer runs, the call's state. MP_UNSUPPORTED as mp_indices_check; MP_INVALID:
 * shapes that do not fit, or too much workspace; MP_NOMEM. */
mp_status mp_gather_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_gather_nd_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_gather_elements_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
mp_status mp_compress_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
/* Writes each value to where MaxPool took it from; all other elements are zero, and of several values for one element the last
 * one stays. Indices count the elements of the pooled tensor row-major; what output_shape adds to it is zero. */
mp_status mp_max_unpool_prepare(const mp_operands *x, mp_call *call, const mp_indexer *by, mp_error *err);
