/* aligned_rows.h - aligns the rows of matrices whose row length is odd for matrix products on tensor cores. */
#pragma once

#include "estimator/model/model.h"

enum { MP_ALIGNED_ROWS_MIN = 512 }; /* minimum row length in elements. Padding then adds at most 1.4 % to a tensor */

/* Sets MP_LAYOUT_ALIGNED_ROWS for results of matrix products, and for their views, if all of these conditions hold:
 * - A row has at least MP_ALIGNED_ROWS_MIN elements, and its length is not a multiple of MP_ROW_ALIGNMENT.
 * - Every reader is a matrix product, a loss over classes, or a view with the same row length.
 * Gradients have the layout of their tensor, so the products of backward read aligned rows, too. Example: the logits of GPT-2
 * have 50,257 columns. Libraries run products with such rows on slow kernels, because no row but the first is aligned.
 *
 * A weight of such a product may also have odd rows, as 768 x 50,257. If only products read it, and its columns are aligned, it
 * is stored column by column (MP_LAYOUT_COLUMN_MAJOR), which needs no padding.
 *
 * Values, parameters and results of a training do not change. Must be called after the layouts are chosen. MP_NOMEM. */
mp_status mp_align_rows(mp_model *model, mp_error *err);

/* The unused memory between rows. */
typedef struct mp_aligned_rows {
    size_t n_tensors; /* number of tensors with aligned rows; views are not counted */
    int64_t elements; /* unused elements of these tensors */
} mp_aligned_rows;
mp_aligned_rows mp_aligned_rows_of(const mp_model *model);
