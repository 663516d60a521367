/* picks.h - operators that pick rows of a table: Gather, GatherND, Compress, and MaxUnpool, which puts them back. For every
 * backend.
 */
#pragma once

#include "executor/operators/gathers/row_entries.h"

/* `state` of their calls. */
typedef struct mp_pick {
    mp_row_entries rows;
    bool by_condition;
} mp_pick;

/* An mp_pick becomes the call's state; `run` and the workspace are the backend's. MP_UNSUPPORTED as mp_indices_check;
 * MP_INVALID: shapes that do not fit; MP_NOMEM. */
mp_status mp_gather_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_gather_nd_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_compress_prepare(const mp_operands *x, mp_call *call, mp_error *err);
/* Values go back to where MaxPool's indices say they were; everything else is zero, and of values that meet the last one stays.
 * Indices count the elements row-major of the tensor that was pooled: a larger output (output_shape) has rows of zeros more. */
mp_status mp_max_unpool_prepare(const mp_operands *x, mp_call *call, mp_error *err);
