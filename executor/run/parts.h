/* parts.h - the part of a tensor that this rank has, where a model is split over ranks, and the whole tensor: in the program's
 * own memory, row-major. */
#pragma once

#include "executor/kernel/array.h"

/* Describes the whole of a tensor, row-major and without data. */
mp_array mp_whole_array(const mp_tensor *tensor);
/* Copies the part of rank `index` out of the whole, or into it, elements of so many bytes. Of a tensor that each rank has
 * whole, copies all. O(elements of the part). */
void mp_part_take(const mp_tensor *tensor, int64_t index, int64_t element, const void *whole, void *part);
void mp_part_put(const mp_tensor *tensor, int64_t index, int64_t element, const void *part, void *whole);
