/* control_join.h - tensors of iterations cut out of one tensor, and joined to one. */
#pragma once

#include "estimator/simplify/control/inference.h"

/* A new constant: one integer or boolean, of rank 0. */
mp_status mp_control_number(mp_inference *w, const char *stem, mp_dtype dtype, int64_t number, int *tensor);

/* Writes items[0..n), n > 0, along an axis into tensor `to` (-1: a new one, left in *out): one behind the other, or, stacked,
 * under a new dimension. By operators of at most MP_JOINED_MAX operands. */
enum { MP_JOINED_MAX = 32 };
mp_status mp_control_join(mp_inference *w, const int *items, int n, int64_t axis, bool stacked, const char *stem, int to,
                          int *out);

/* The parts of a tensor along an axis, of sizes[0..n), n > 0 (NULL: 1 each, and without the dimension if `squeezed`). */
mp_status mp_control_part(mp_inference *w, int tensor, int axis, const int64_t *sizes, int n, bool squeezed, int *parts);
