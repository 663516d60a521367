/* windows_cuda.h - own kernels for pools. Enqueued on mp_cuda_stream(). Private to executor/cuda/.
 *
 * Forward, one thread per output (eight channels where they lie innermost) looks at its window; backward, one per input at the
 * windows over it, in a fixed order: nothing is added to by two threads. Up to three spatial dimensions, any strides; sums are
 * in float.
 */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/operators/pooling/pooling.h"

enum { MP_WINDOW_SPATIAL = 3 };

/* y from x. `where` (NULL: not wanted): per output, in the order of y's memory, the tap of its maximum; `given` (data NULL: not
 * wanted): its place in the whole input, as ONNX counts it. */
void mp_windows_forward(const mp_pooling *pool, const mp_array *x, const mp_array *y, void *where, const mp_array *given);
/* dx from dy, added to what is there if `add`. x and y: read for norms only; `where`: for maxima only. */
void mp_windows_backward(const mp_pooling *pool, const mp_array *dy, const mp_array *dx, const mp_array *x, const mp_array *y,
                         const void *where, bool add);

MP_C_END
