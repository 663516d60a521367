/* normalize_warps_cuda.cuh - normalization of rows that lie one behind the other, each by a warp that reads it once.
 *
 * For rows of up to MP_WARP_ROW elements of one type, in vectors, with scale and shift along the row: layer and
 * root-mean-square normalization as networks have them.
 */
#pragma once

#include "executor/operators/normalizations/normalize_cuda.cuh"

enum { MP_WARP_ROW = 1024 };

/* Runs forward (the gradient of x, if `backward`) this way; false: this data is not such. */
bool mp_normal_by_warps(const mp_normal *n, const mp_normal_data *d, bool backward);
