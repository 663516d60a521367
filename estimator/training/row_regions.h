/* row_regions.h - computes regions of independent rows (row_runs.h) in chunks, so that their widest tensors never exist as a
 * whole.
 *
 *     u = MatMul(x, A); g = Gelu(u); y = MatMul(g, B); z = Add(x, y)      becomes, for 2 chunks:
 *
 *     x0, x1 = Split(x) // views of x.
 *     u0 = MatMul(x0, A); g0 = Gelu(u0); y0 = MatMul(g0, B); z0 = Add(x0, y0) // chunk 0.
 *     u1 = MatMul(x1, A); g1 = Gelu(u1); y1 = MatMul(g1, B); z1 = Add(x1, y1) // chunk 1.
 *     z = Concat(z0, z1)
 *
 * All nodes are ordinary: a plan keeps or recomputes each of them. Backward visits the chunks in reverse order, and sums the
 * gradients of A and B in this order. The Split copies nothing, and neither does the backward pass of the Concat
 * (mp_operator.shares_rows). Along the queries of attention, rows are not adjacent in memory, so both are copies. */
#pragma once

#include "estimator/training/row_runs.h"

/* The regions of one kind. */
typedef struct mp_chunked_kind {
    int n;             /* number of chunks; 0: the regions of this kind are whole, or there are none */
    int n_regions;     /* number of regions of this kind in the model, whole or not */
    int64_t n_rows;    /* number of rows of the first region */
    int64_t n_most;    /* number of chunks that some region permits; less than 2: all regions stay whole */
    const char *first; /* name of the first operator of the first region; NULL: there is none */
} mp_chunked_kind;

typedef struct mp_row_regions {
    mp_chunked_kind kinds[MP_N_CHUNK_KINDS];
} mp_row_regions;

/* Computes all regions of kind k in n[k] chunks; 0 or 1: they stay whole. A region with too few rows has fewer chunks. The head
 * is not changed (mp_model_chunk_loss). Blocks of rows begin at multiples of `alignment` bytes, a power of two. Call it after
 * mp_model_add_loss. The model stays sorted. Indices of operators change. MP_NOMEM. O(operands). */
mp_status mp_model_chunk_rows(mp_model *model, const int n[MP_N_CHUNK_KINDS], int64_t alignment, mp_row_regions *out,
                              mp_error *err);
