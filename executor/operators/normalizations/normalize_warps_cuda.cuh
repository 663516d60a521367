/* normalize_warps_cuda.cuh - normalizes adjacent contiguous rows with one warp per row; each row is read once.
 *
 * Requirements: rows of up to MP_WARP_ROW elements in whole vectors, all operands of one type, scale and shift along the row.
 * This is the usual form of layer and root-mean-square normalization. */
#pragma once

#include "executor/operators/normalizations/normalize_cuda.cuh"

enum { MP_WARP_ROW = 1024 };

/* Computes forward, or, with `backward`, the gradient of x. Returns false and computes nothing if rows or operands do not meet
 * the requirements of this file. */
bool mp_normal_by_warps(const mp_normal *n, const mp_normal_data *d, bool backward);
