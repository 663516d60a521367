/* parts.h - a rank's part of a tensor in a model split over ranks, and the whole tensor, both in host memory and row-major. */
#pragma once

#include "executor/kernel/array.h"

/* Describes the whole tensor, row-major and without data. */
mp_array mp_whole_array(const mp_tensor *tensor);
/* Copy the part of rank `index` from the whole tensor, or into it; `element` is the size of an element in bytes. A tensor that
 * is not split is copied completely. O(elements of the part). */
void mp_part_take(const mp_tensor *tensor, int64_t index, int64_t element, const void *whole, void *part);
void mp_part_put(const mp_tensor *tensor, int64_t index, int64_t element, const void *part, void *whole);
