/* attention_cuda.cuh - tiles of attention scores on the GPU, shared by the kernels of forward and backward.
 *
 * A thread block processes a tile of SIDE x SIDE elements. Thread t owns the 4 x 4 elements with row = t / 16 modulo 16 and
 * column = t % 16 modulo 16. Products of tiles run over the inner dimension in slices of SLICE, which are first copied to
 * shared memory. */
#pragma once

#include "executor/cuda/grid/blocks.cuh"
#include "executor/cuda/grid/family.cuh"
#include "executor/kernel/philox.h"
extern "C" {
#include "executor/cuda/device/step_values.h"
#include "executor/operators/attention/attention_spec.h"
}

enum { MP_SIDE = 64, MP_SLICE = 16, MP_EACH = 4, MP_STEP = MP_SIDE / MP_EACH, MP_TILE_THREADS = MP_STEP * MP_STEP };

/* A tile in shared memory, padded by one column to avoid bank conflicts. */
struct mp_shared_tile {
    float at[MP_SIDE][MP_SIDE + 1];
};
struct mp_shared_slices {
    float a[MP_SLICE][MP_SIDE + 1], b[MP_SLICE][MP_SIDE + 1];
};
struct mp_own_tile {
    float x[MP_EACH][MP_EACH];
};

static MP_BODY int mp_tile_row(int t, int i)
{
    return t / MP_STEP + i * MP_STEP;
}
static MP_BODY int mp_tile_column(int t, int j)
{
    return t % MP_STEP + j * MP_STEP;
}

/* Calls p(i, j, row, column) for each of the 4 x 4 tile elements that thread t owns. */
template <class P> static MP_BODY void mp_each_own(int t, const P &p)
{
    MP_UNROLL
    for (int i = 0; i < MP_EACH; i++) {
        MP_UNROLL
        for (int j = 0; j < MP_EACH; j++) p(i, j, mp_tile_row(t, i), mp_tile_column(t, j));
    }
}

static MP_BODY void mp_tile_clear(mp_own_tile *c)
{
    mp_each_own(0, [&](int i, int j, int, int) { c->x[i][j] = 0; });
}

/* One matrix of a stack of matrices, or the part of the matrix that begins at element `start`. Elements outside of the matrix
 * read as 0. */
struct mp_matrix_view {
    mp_operand of;
    int64_t start, rows, columns, row_stride, column_stride;
    MP_BODY bool is_inside(int64_t row, int64_t column) const { return row < rows && column < columns; }
    MP_BODY float load(int64_t row, int64_t column) const
    {
        return is_inside(row, column) ? of.load(start + row * row_stride + column * column_stride) : 0;
    }
    MP_BODY void store(int64_t row, int64_t column, float value) const
    {
        if (is_inside(row, column)) of.store(start + row * row_stride + column * column_stride, value);
    }
    MP_BODY mp_matrix_view turned() const { return mp_matrix_view{of, start, columns, rows, column_stride, row_stride}; }
    /* Returns the part of the view that begins at (row, column). */
    MP_BODY mp_matrix_view from(int64_t row, int64_t column) const
    {
        return mp_matrix_view{
            of, start + row * row_stride + column * column_stride, rows - row, columns - column, row_stride, column_stride};
    }
};

/* A stack of matrices in the form that GPU kernels receive. */
struct mp_matrix_stack {
    mp_operand of;
    mp_matrices form;
    int64_t rows, columns;
    MP_BODY mp_matrix_view matrix(int64_t k) const
    {
        mp_matrix_view v = {of, 0, rows, columns, form.row_stride, form.column_stride};
        for (int d = form.n_batch - 1; d >= 0; d--) {
            v.start += k % form.batch[d] * form.batch_stride[d];
            k /= form.batch[d];
        }
        return v;
    }
};

/* Adds the product a b to c, where a is SIDE x depth and b is depth x SIDE. which(own) returns the elements of c that a thread
 * keeps in its own data. */
template <class BLOCK, class W> static MP_BODY void mp_block_product(BLOCK &block, mp_matrix_view a, mp_matrix_view b, W which)
{
    const bool a_by_rows = a.column_stride == 1, b_by_columns = b.row_stride == 1;
    for (int64_t first = 0; first < a.columns; first += MP_SLICE) {
        block.phase([&](int t, auto &s, auto &) {
            for (int e = t; e < MP_SLICE * MP_SIDE; e += MP_TILE_THREADS) {
                const int side = e % MP_SIDE, depth = e / MP_SIDE, side_2 = e / MP_SLICE, depth_2 = e % MP_SLICE;
                const int a_side = a_by_rows ? side_2 : side, a_depth = a_by_rows ? depth_2 : depth;
                const int b_side = b_by_columns ? side_2 : side, b_depth = b_by_columns ? depth_2 : depth;
                s.slices.a[a_depth][a_side] = a.load(a_side, first + a_depth);
                s.slices.b[b_depth][b_side] = b.load(first + b_depth, b_side);
            }
        });
        block.phase([&](int t, auto &s, auto &o) {
            mp_own_tile *c = which(o);
            for (int k = 0; k < MP_SLICE; k++) {
                MP_UNROLL
                for (int i = 0; i < MP_EACH; i++) {
                    const float x = s.slices.a[k][mp_tile_row(t, i)];
                    MP_UNROLL
                    for (int j = 0; j < MP_EACH; j++) c->x[i][j] += x * s.slices.b[k][mp_tile_column(t, j)];
                }
            }
        });
    }
}

/* Adds the product a b to c. tile(shared) returns the matrix a in shared memory. TURNED: uses the transpose of a. */
template <bool TURNED, class BLOCK, class T, class W>
static MP_BODY void mp_tile_product_shared(BLOCK &block, T tile, int64_t depth, mp_matrix_view b, W which)
{
    const bool b_by_columns = b.row_stride == 1;
    for (int first = 0; first < MP_SIDE && first < depth; first += MP_SLICE) {
        block.phase([&](int t, auto &s, auto &) {
            for (int e = t; e < MP_SLICE * MP_SIDE; e += MP_TILE_THREADS) {
                const int b_side = b_by_columns ? e / MP_SLICE : e % MP_SIDE,
                          b_depth = b_by_columns ? e % MP_SLICE : e / MP_SIDE;
                s.slices.b[b_depth][b_side] = b.load(first + b_depth, b_side);
            }
        });
        block.phase([&](int t, auto &s, auto &o) {
            mp_own_tile *c = which(o);
            const mp_shared_tile *a = tile(s);
            for (int k = 0; k < MP_SLICE; k++) {
                MP_UNROLL
                for (int i = 0; i < MP_EACH; i++) {
                    const int row = mp_tile_row(t, i);
                    const float x = TURNED ? a->at[first + k][row] : a->at[row][first + k];
                    MP_UNROLL
                    for (int j = 0; j < MP_EACH; j++) c->x[i][j] += x * s.slices.b[k][mp_tile_column(t, j)];
                }
            }
        });
    }
}

/* The parameters of all kernels of attention. */
struct mp_attend {
    mp_attention size;
    float scale, fill, ratio;
    bool causal, keeps, safe;
    mp_matrix_stack q, k, v, y, dy, added, positions;
    float *lse;
    const mp_cuda_pass *pass; /* seed and step of the pass for dropout; NULL: no dropout */
    uint32_t op;

    MP_BODY bool is_hidden(int64_t row, int64_t column) const { return causal && column > row + MP_SIDE - 1; }
    /* Applies all masks to a score: returns the masked score. */
    MP_BODY float masked(const mp_matrix_view &add, const mp_matrix_view &place, int64_t row, int64_t column, float score) const
    {
        if (row >= size.rows || column >= size.columns || (causal && column > row)) return -INFINITY;
        score *= scale;
        if (is_replaced(place, row, column)) score = fill;
        return add.of.data ? score + add.load(row, column) : score;
    }
    MP_BODY bool is_replaced(const mp_matrix_view &place, int64_t row, int64_t column) const
    {
        if (!place.of.data || !place.is_inside(row, column)) return false;
        const int64_t at = place.start + row * place.row_stride + column * place.column_stride;
        return (((const uint8_t *)place.of.data)[at] != 0) != keeps;
    }
    /* Returns the factor by which dropout multiplies a probability; 0: dropout drops this element. */
    MP_BODY float kept(int64_t m, int64_t row, int64_t column) const
    {
        if (!pass) return 1;
        const uint64_t element = (uint64_t)((m * size.rows + row) * size.columns + column);
        return mp_random_uniform(pass->seed, pass->step, op, element) >= ratio ? 1 / (1 - ratio) : 0;
    }
};
