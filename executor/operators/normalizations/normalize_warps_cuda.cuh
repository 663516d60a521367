/* normalize_warps_cuda.cuh - normalizes adjacent contiguous rows with one warp per row; each row is read once.
 *
 * Requirements: rows of up to MP_WARP_ROW elements in whole vectors, all operands of one type, scale and shift along the row.
 * This is the usual form of layer and root-mean-square normalization. */
#pragma once

#include "executor/operators/normalizations/normalize_cuda.cuh"

enum { MP_WARP_ROW = 1024 };

/* True if rows and operands meet the requirements of this file. `chain` NULL: the normalization runs alone. */
bool mp_normal_fits_warps(const mp_normal *n, const mp_normal_data *d, bool backward, const mp_normal_chain *chain);
/* Computes forward, or, with `backward`, the gradients of x, scale and shift; the gradient of x must be wanted. Returns false
 * and computes nothing if mp_normal_fits_warps is false. The workspace of backward has mp_normal_warps_workspace_bytes. */
bool mp_normal_by_warps(const mp_normal *n, const mp_normal_data *d, bool backward, const mp_normal_chain *chain,
                        void *workspace);
int64_t mp_normal_warps_workspace_bytes(const mp_normal *n);
