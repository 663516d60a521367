/* parts.h - copies between a rank's part of a tensor that is split over ranks (tp) and the whole tensor, both row-major in
 * host memory. */
#pragma once

#include "executor/kernel/array.h"

/* Returns an array with the shape of the whole tensor, row-major, without data. */
mp_array mp_whole_array(const mp_tensor *tensor);
/* Copy the part of rank `index` from the whole tensor, or into it; `element` is the size of an element in bytes. A tensor that
 * is not split is copied completely. O(elements of the part). */
void mp_part_take(const mp_tensor *tensor, int64_t index, int64_t element, const void *whole, void *part);
void mp_part_put(const mp_tensor *tensor, int64_t index, int64_t element, const void *part, void *whole);
