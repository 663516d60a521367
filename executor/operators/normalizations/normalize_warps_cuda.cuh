/* normalize_warps_cuda.cuh - normalizes adjacent contiguous rows, each by one warp that reads it once.
 *
 * For rows of up to MP_WARP_ROW elements in whole vectors, all operands of one type, scale and shift along the row: the usual
 * form of layer and root-mean-square normalization.
 */
#pragma once

#include "executor/operators/normalizations/normalize_cuda.cuh"

enum { MP_WARP_ROW = 1024 };

/* Runs forward, or if `backward` the gradient of x. Returns false, and runs nothing, if the data is not of this form. */
bool mp_normal_by_warps(const mp_normal *n, const mp_normal_data *d, bool backward);
