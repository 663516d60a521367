/* body.h - operators whose arithmetic is written once for all backends. An operator has a body, a function that computes one
 * item of its result (an element, a line, ...). Each backend calls the body in a loop over all items.
 *
 * The operator's description is a struct that its prepare and run functions fill from the operands. The body is an MP_INLINE
 * function of the description and of an item's number. It loads and stores elements by their type (element.h). No other item
 * reads or writes the elements that an item writes, so items may run in any order. A loop runs the body for all items: over
 * threads on the CPU (executor/cpu/base/bodies.h), as a launch on the GPU (executor/cuda/grid/bodies.cuh). */
#pragma once

#include <math.h>
#include <string.h>

#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

/* Runs an operator's body for its items 0 to n - 1. The description is copied or read before the loop returns. `work` is the
 * approximate number of elements that one item reads or writes. MP_IO: a launch failed. */
typedef mp_status (*mp_body_loop)(const void *description, int64_t n, int64_t work, mp_error *err);

/* Returns the offset of element k, counted row-major over the dimensions [first, last) of an array. */
MP_INLINE int64_t mp_array_offset(const mp_array *a, int first, int last, int64_t k)
{
    return mp_strided_offset(last - first, a->dims + first, a->strides + first, k);
}

/* Read or write the element at offset `at` (in elements) of an array as a float. */
MP_INLINE float mp_array_load(const mp_array *a, int64_t at)
{
    return mp_load_float(a->data, a->dtype, at);
}
MP_INLINE void mp_array_store(const mp_array *a, int64_t at, float value)
{
    mp_store_float(a->data, a->dtype, at, value);
}

/* Copies n elements of `size` bytes (1, 2, 4, 8). Offsets `to_at`, `from_at` and strides `to_step`, `from_step` are in
 * elements. `from` NULL writes zeros. On the host, contiguous elements are copied by one memcpy. */
MP_INLINE void mp_elements_copy(void *to, int64_t to_at, int64_t to_step, const void *from, int64_t from_at, int64_t from_step,
                                int64_t n, int size)
{
#ifndef __CUDA_ARCH__
    if (to_step == 1 && from_step == 1 && n > 1) {
        char *first = (char *)to + to_at * size;
        const size_t bytes = (size_t)(n * size);
        if (from)
            memmove(first, (const char *)from + from_at * size, bytes);
        else
            memset(first, 0, bytes);
        return;
    }
#endif
#define MP_COPY_AS(T) \
    for (int64_t k = 0; k < n; k++) ((T *)to)[to_at + k * to_step] = from ? ((const T *)from)[from_at + k * from_step] : 0
    if (size == 1)
        MP_COPY_AS(uint8_t);
    else if (size == 2)
        MP_COPY_AS(uint16_t);
    else if (size == 4)
        MP_COPY_AS(uint32_t);
    else
        MP_COPY_AS(uint64_t);
#undef MP_COPY_AS
}
MP_INLINE void mp_element_copy(void *to, int64_t to_at, const void *from, int64_t from_at, int size)
{
    mp_elements_copy(to, to_at, 0, from, from_at, 0, 1, size);
}

/* A span is a part of a row of an array, and an item of operators that work on rows: the columns [first, end) of its last
 * dimension, at most MP_ROW_SPAN. */
enum { MP_ROW_SPAN = 32 };
typedef struct mp_row_span {
    int64_t row, first, end;
} mp_row_span;

MP_INLINE mp_row_span mp_row_span_of(const mp_array *a, int64_t item)
{
    const int64_t columns = a->dims[a->rank - 1], n = (columns + MP_ROW_SPAN - 1) / MP_ROW_SPAN, first = item % n * MP_ROW_SPAN;
    const mp_row_span span = {item / n, first, columns - first < MP_ROW_SPAN ? columns : first + MP_ROW_SPAN};
    return span;
}
/* Returns the number of spans that cover all rows of an array. */
static inline int64_t mp_row_spans(const mp_array *a)
{
    const int64_t columns = a->dims[a->rank - 1];
    return columns ? mp_array_elements(a) / columns * ((columns + MP_ROW_SPAN - 1) / MP_ROW_SPAN) : 0;
}
