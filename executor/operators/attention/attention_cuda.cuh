/* attention_cuda.cuh - the operands of attention on the GPU, and products of their tiles.
 *
 * A thread block owns MP_ATTENTION_ROWS rows of a result, 16 rows per warp. It reads the other operand in blocks of rows,
 * through shared memory. Scores, probabilities and their gradients stay in registers. */
#pragma once

#include "executor/cuda/grid/family.cuh"
#include "executor/cuda/grid/tensor_cores.cuh"
#include "executor/kernel/philox.h"
#include "executor/kernel/vector_math.h"
extern "C" {
#include "executor/cuda/device/step_values.h"
#include "executor/operators/attention/attention_spec.h"
}

/* One matrix of a stack of matrices in FLOAT or BFLOAT16, or the part of a matrix that begins at element `start`. Elements
 * outside of the matrix read as 0, and are not written. */
struct mp_matrix_view {
    mp_operand of;
    int64_t start, rows, columns, row_stride, column_stride;
    bool has_vectors; /* as in mp_matrix_stack; a part must begin at a multiple of 16 bytes */
    MP_BODY bool is_inside(int64_t row, int64_t column) const { return row < rows && column < columns; }
    MP_BODY float load(int64_t row, int64_t column) const
    {
        return is_inside(row, column) ? mp_load_one(of.data, of.dtype, start + row * row_stride + column * column_stride) : 0;
    }
    MP_BODY void store(int64_t row, int64_t column, float value) const
    {
        if (is_inside(row, column)) mp_store_one(of.data, of.dtype, start + row * row_stride + column * column_stride, value);
    }
    /* Returns the part of the view that begins at (row, column). */
    MP_BODY mp_matrix_view from(int64_t row, int64_t column) const
    {
        return mp_matrix_view{of,         start + row * row_stride + column * column_stride,
                              rows - row, columns - column,
                              row_stride, column_stride,
                              has_vectors};
    }
};

/* A stack of matrices in the form that GPU kernels receive. */
struct mp_matrix_stack {
    mp_operand of;
    mp_matrices form;
    int64_t rows, columns;
    bool has_vectors; /* true: columns are adjacent, and rows begin and end at multiples of 16 bytes */
    MP_BODY mp_matrix_view matrix(int64_t k) const
    {
        mp_matrix_view v = {of, 0, rows, columns, form.row_stride, form.column_stride, has_vectors};
        for (int d = form.n_batch - 1; d >= 0; d--) {
            v.start += k % form.batch[d] * form.batch_stride[d];
            k /= form.batch[d];
        }
        return v;
    }
};

/* ---- tiles. */

/* Keeps the compiler from unrolling the next loop, which saves registers and compilation time. */
#ifdef MP_CUDA_TWIN
#define MP_ROLLED
#else
#define MP_ROLLED _Pragma("unroll 1")
#endif

enum { MP_ATTENTION_ROWS = 64 }; /* number of rows of a result that a thread block computes */

/* The sizes of tiles. COLUMNS: number of columns of a result that a block computes. THEIRS: number of rows of the other operand
 * that the block reads at a time. */
template <mp_numbers N, int C, int T> struct mp_attention_tiles {
    enum { ROWS = MP_ATTENTION_ROWS, COLUMNS = C, THEIRS = T, THREADS = 2 * ROWS };
    /* SLICE: number of columns of an operand that shared memory holds at a time; more columns are processed slice by slice */
    enum { SLICE = N == MP_HALVES ? COLUMNS : 64, SLICES = COLUMNS / SLICE };
    typedef mp_number_tile<N, ROWS, SLICE> mine;
    typedef mp_number_tile<N, THEIRS, SLICE> theirs;
};

/* Copies a tile from memory to shared memory. Columns beyond the operand are filled only up to the next multiple of 16, because
 * products read no others. Numbers of TF32 products are rounded. */
template <mp_numbers N, int THREADS, class TILE> MP_BODY void mp_tile_fill(int t, TILE &tile, const mp_matrix_view &from)
{
    enum { W = TILE::WIDTH, VECTORS = TILE::COLUMNS / W };
    typedef typename TILE::element element;
    struct alignas(16) vector {
        element x[W];
    };
    const int used = from.columns < TILE::COLUMNS ? ((int)from.columns + 15) / 16 * 16 : (int)TILE::COLUMNS;
    if (from.has_vectors && from.of.dtype == (N == MP_HALVES ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT)) {
        const element *at = (const element *)from.of.data + from.start;
        MP_UNROLL
        for (int v = t; v < TILE::ROWS * VECTORS; v += THREADS) {
            const int row = v / VECTORS, column = v % VECTORS * W;
            vector values = {};
            if (column >= used) continue;
            if (row < from.rows && column < from.columns) values = *(const vector *)(at + row * from.row_stride + column);
            if constexpr (N == MP_TF32)
                for (int e = 0; e < W; e++) values.x[e] = mp_to_tf32(values.x[e]);
            *(vector *)&tile.at[row][column] = values;
        }
        return;
    }
    const bool by_columns = from.column_stride != 1;
    MP_ROLLED
    for (int k = t; k < TILE::ROWS * TILE::COLUMNS; k += THREADS) {
        const int row = by_columns ? k % TILE::ROWS : k / TILE::COLUMNS,
                  column = by_columns ? k / TILE::ROWS : k % TILE::COLUMNS;
        if (column >= used) continue;
        const float value = from.load(row, column);
        if constexpr (N == MP_HALVES)
            tile.at[row][column] = mp_to_bfloat16(value);
        else
            tile.at[row][column] = N == MP_TF32 ? mp_to_tf32(value) : value;
    }
}

/* Both functions add products to the sums of every warp, which has 16 rows. own.a and own.b hold a lane's parts of A and B.
 *
 * mp_product_across: sums += mine theirs^T, with N_SUMS columns. depth: number of columns of both tiles.
 *
 * mp_product_down: the sums from column 8 * first on += p theirs; p has the layout of sums. rows, columns: the part of `theirs`
 * in use. */
template <mp_numbers N, int N_SUMS, class BLOCK, class MINE, class THEIRS, class SUMS>
MP_BODY void mp_product_across(BLOCK &b, const MINE &mine, const THEIRS &theirs, int64_t depth, const SUMS &sums)
{
    MP_ROLLED
    for (int k = 0; k < depth; k += mp_format<N>::DEPTH) {
        b.shares([&](int t, auto &s, auto &o) { mp_fragment_of_rows<N>(mine(s), t / MP_WARP * 16, k, t % MP_WARP, o.a); });
        MP_UNROLL
        for (int j = 0; j < N_SUMS / 8; j++) {
            b.shares([&](int t, auto &s, auto &o) { mp_fragment_across<N>(theirs(s), 8 * j, k, t % MP_WARP, o.b); });
            mp_tensor_multiply<N>(
                b, [&](auto &o) -> float(&)[4] { return sums(o)[j]; }, [](auto &o) -> auto & { return o.a; },
                [](auto &o) -> auto & { return o.b; });
        }
    }
}

template <mp_numbers N, class TILES, class BLOCK, class P, class THEIRS, class SUMS>
MP_BODY void mp_product_down(BLOCK &b, const P &p, const THEIRS &theirs, int64_t rows, int64_t columns, int first,
                             const SUMS &sums)
{
    MP_UNROLL
    for (int k = 0; k < TILES::THEIRS; k += mp_format<N>::DEPTH) {
        if (k >= rows) continue;
        b.threads([&](int, auto &o) { mp_fragment_of_sums<N>(p(o) + k / 8, o.a); });
        MP_UNROLL
        for (int j = 0; j < TILES::SLICE / 8; j++) {
            if (8 * j >= columns) continue;
            b.shares([&](int t, auto &s, auto &o) { mp_fragment_down<N>(theirs(s), k, 8 * j, t % MP_WARP, o.b); });
            mp_tensor_multiply<N>(
                b, [&](auto &o) -> float(&)[4] { return sums(o)[first + j]; }, [](auto &o) -> auto & { return o.a; },
                [](auto &o) -> auto & { return o.b; });
        }
    }
}

/* Return the row and the column of element sums[j][e] of thread t. */
MP_BODY int mp_sum_row(int t, int e)
{
    return t / MP_WARP * 16 + t % MP_WARP / 4 + e / 2 * 8;
}
MP_BODY int mp_sum_column(int t, int j, int e)
{
    return 8 * j + t % 4 * 2 + e % 2;
}

/* Calls f(j, e, row, column) for each element sums[j][e] that thread t holds. For even e, elements e and e + 1 are in adjacent
 * columns. */
template <int N_SUMS, class F> MP_BODY void mp_each_sum(int t, const F &f)
{
    MP_UNROLL
    for (int j = 0; j < N_SUMS / 8; j++) {
        MP_UNROLL
        for (int e = 0; e < 4; e++) f(j, e, mp_sum_row(t, e), mp_sum_column(t, j, e));
    }
}

/* Writes the sums of a block, multiplied by factor(e), to a matrix. */
template <int N_SUMS, class F> MP_BODY void mp_sums_write(int t, const mp_matrix_view &to, float (*sums)[4], const F &factor)
{
    mp_each_sum<N_SUMS>(t, [&](int j, int e, int row, int column) {
        if (e % 2) return;
        const float first = sums[j][e] * factor(e), second = sums[j][e + 1] * factor(e + 1);
        const int64_t at = to.start + row * to.row_stride + column;
        if (to.has_vectors && row < to.rows && column + 1 < to.columns && to.of.dtype == MP_DTYPE_BFLOAT16) {
            ((uint32_t *)to.of.data)[at / 2] = mp_pair_of_halves(first, second);
        } else {
            to.store(row, column, first);
            to.store(row, column + 1, second);
        }
    });
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
};

/* Masks of the scores that one thread holds. Bit 4 * j + e belongs to element sums[j][e] (mp_each_sum). */
struct mp_score_bits {
    uint32_t replaced; /* 1: a boolean mask replaces the score */
    uint32_t kept;     /* 1: dropout keeps the probability */
};

/* Reads the boolean mask of a tile of matrix m from memory, and draws the elements that dropout keeps. (row, column): the
 * tile's first score. is_turned: rows of the tile are columns of the scores. */
template <int N_SUMS>
MP_BODY mp_score_bits mp_score_bits_of(const mp_attend &a, const mp_matrix_view &place, int t, int64_t m, int64_t row,
                                       int64_t column, bool is_turned)
{
    static_assert(N_SUMS <= 64, "a thread holds at most 32 elements");
    mp_score_bits bits = {0, UINT32_MAX};
    if (place.of.data) {
        MP_ROLLED
        for (int k = 0; k < N_SUMS / 2; k++) {
            const int mine = mp_sum_row(t, k % 4), theirs = mp_sum_column(t, k / 4, k % 4);
            const int64_t r = row + (is_turned ? theirs : mine), c = column + (is_turned ? mine : theirs);
            const int64_t at = place.start + r * place.row_stride + c * place.column_stride;
            if (place.is_inside(r, c) && (((const uint8_t *)place.of.data)[at] != 0) != a.keeps) bits.replaced |= 1u << k;
        }
    }
    if (a.pass) {
        mp_philox_block words = {};
        uint64_t quad = UINT64_MAX;
        bits.kept = 0;
        MP_ROLLED
        for (int k = 0; k < N_SUMS / 2; k++) {
            const int mine = mp_sum_row(t, k % 4), theirs = mp_sum_column(t, k / 4, k % 4);
            const int64_t r = row + (is_turned ? theirs : mine), c = column + (is_turned ? mine : theirs);
            const uint64_t element = (uint64_t)((m * a.size.rows + r) * a.size.columns + c);
            /* one draw of four random words serves four consecutive elements */
            if (quad != element / 4) words = mp_random_quad(a.pass->seed, a.pass->step, a.op, quad = element / 4);
            const uint32_t word =
                element & 2 ? (element & 1 ? words.word[3] : words.word[2]) : (element & 1 ? words.word[1] : words.word[0]);
            if (mp_uniform_of(word) >= a.ratio) bits.kept |= 1u << k;
        }
    }
    return bits;
}

/* The additive and causal masks of a tile of scores. Masks are read in place; a broadcast dimension has stride 0. */
struct mp_score_masks {
    const mp_attend &a;
    mp_matrix_view added; /* the additive mask, from the tile's first score on */
    int rows, columns;    /* number of rows and columns of the tile that are within the scores */
    int64_t diagonal;     /* row r of the tile uses columns up to r + diagonal; not causal: all columns */

    MP_BODY mp_score_masks(const mp_attend &all, const mp_matrix_view &add, int64_t row, int64_t column)
        : a(all), added(add.from(row, column)),
          rows((int)(all.size.rows - row < MP_ATTENTION_ROWS ? all.size.rows - row : (int64_t)MP_ATTENTION_ROWS)),
          columns(
              (int)(all.size.columns - column < MP_ATTENTION_ROWS ? all.size.columns - column : (int64_t)MP_ATTENTION_ROWS)),
          diagonal(all.causal ? row - column : (int64_t)MP_ATTENTION_ROWS)
    {
    }
    MP_BODY bool is_inside(int r, int c) const { return r < rows && c < columns; }
    MP_BODY float apply(int r, int c, bool is_replaced, float score) const
    {
        if (!is_inside(r, c) || c > r + diagonal) return -INFINITY;
        score = is_replaced ? a.fill : score * a.scale;
        if (!added.of.data) return score;
        return score + mp_load_one(added.of.data, added.of.dtype, added.start + r * added.row_stride + c * added.column_stride);
    }
};

/* Returns e^x, or 0 if the result would be denormal. With bfloat16 and TF32 products __expf suffices: its error is smaller than
 * theirs. */
template <mp_numbers N> MP_BODY float mp_exp_of_score(float x)
{
#ifdef __CUDA_ARCH__
    if (N != MP_FLOATS) return __expf(x);
#endif
    return mp_exp_to_zero(x);
}
