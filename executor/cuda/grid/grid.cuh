/* grid.cuh - launches of memplan's own kernels: over elements, strided operands, blocks, and rows with reductions.
 *
 * A kernel is a struct with the operands as members and MP_BODY functions. A launcher runs it on the stream of the open
 * device. With MP_CUDA_TWIN, a C++ compiler compiles the same bodies as plain loops on the host, so that they are tested
 * without a GPU. Wherever the order of operations matters, the GPU and the host loops use the same order. Launchers only
 * enqueue; mp_launched reports failed launches (cudaGetLastError). No result depends on the number of blocks or threads of a
 * launch: only the number of terms decides how a sum is split.
 *
 * Bodies run in parallel and in any order. No body may read or write data that another body writes.
 *
 * The structs of a file are in an unnamed namespace. A kernel is instantiated by the name of its struct, and two files may use
 * the same name. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

extern "C" {
#include "executor/kernel/kernel.h"
#include "executor/kernel/loops.h"
}
#include "executor/cuda/grid/division.h"
#include "executor/kernel/element.h"

#ifdef MP_CUDA_TWIN
#define MP_BODY inline __attribute__((always_inline))
/* MP_TWIN_LAUNCHES names a header that observes every launch and may skip the kernel's body. */
#ifdef MP_TWIN_LAUNCHES
#include MP_TWIN_LAUNCHES
#define MP_LAUNCHES                                       \
    do {                                                  \
        if (!launches_begin(__PRETTY_FUNCTION__)) return; \
    } while (0)
#else
#define MP_LAUNCHES
#endif
#else
extern "C" {
#include "executor/cuda/device/streams.h"
}
#define MP_BODY __device__ __forceinline__
#endif

/* Placed before a loop over a thread's own arrays: unrolls the loop, so that the arrays stay in registers. */
#ifdef MP_CUDA_TWIN
#define MP_UNROLL
#else
#define MP_UNROLL _Pragma("unroll")
#endif

enum { MP_GRID_THREADS = 256, MP_GRID_BLOCKS = 1 << 16 };

/* Returns MP_OK, or the failure of the most recent kernel launches. Every run function of a GPU kernel ends with this call. */
static inline mp_status mp_launched(mp_error *err)
{
#ifdef MP_CUDA_TWIN
    (void)err;
#else
    cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess) return MP_FAIL(err, MP_IO, "CUDA failed to launch a kernel: %s", cudaGetErrorString(code));
#endif
    return MP_OK;
}

/* ---- over elements: f(k) for every k in [0, n). struct f { MP_BODY void operator()(int64_t k) const; }; */

#ifndef MP_CUDA_TWIN
static inline unsigned mp_grid_blocks(int64_t n, int64_t per_block)
{
    int64_t blocks = (n + per_block - 1) / per_block;
    return (unsigned)(blocks < MP_GRID_BLOCKS ? blocks : (int64_t)MP_GRID_BLOCKS);
}

template <class F> __global__ void __launch_bounds__(MP_GRID_THREADS) mp_each_kernel(int64_t n, F f)
{
    const int64_t step = (int64_t)gridDim.x * MP_GRID_THREADS;
    for (int64_t k = (int64_t)blockIdx.x * MP_GRID_THREADS + threadIdx.x; k < n; k += step) f(k);
}
#endif

template <class F> static void mp_each(int64_t n, const F &f)
{
    if (n <= 0) return;
#ifdef MP_CUDA_TWIN
    MP_LAUNCHES;
    for (int64_t k = 0; k < n; k++) f(k);
#else
    mp_each_kernel<F><<<mp_grid_blocks(n, MP_GRID_THREADS), MP_GRID_THREADS, 0, mp_cuda_stream()>>>(n, f);
#endif
}

/* Read or write elements of any type. Types other than FLOAT and BFLOAT16 are rare, so their code is not inlined. */
#ifdef MP_CUDA_TWIN
#define MP_APART static
#else
#define MP_APART static __device__ __noinline__
#endif
MP_APART inline int64_t mp_load_any_whole(const void *data, mp_dtype dtype, int64_t at)
{
    return mp_load_whole(data, dtype, at);
}
MP_APART inline void mp_store_any_whole(void *data, mp_dtype dtype, int64_t at, int64_t value)
{
    mp_store_whole(data, dtype, at, value);
}
MP_APART inline float mp_load_rare(const void *data, mp_dtype dtype, int64_t at)
{
    return mp_load_float(data, dtype, at);
}
MP_APART inline void mp_store_rare(void *data, mp_dtype dtype, int64_t at, float value)
{
    mp_store_float(data, dtype, at, value);
}
MP_BODY float mp_load_any(const void *data, mp_dtype dtype, int64_t at)
{
    if (dtype == MP_DTYPE_FLOAT) return ((const float *)data)[at];
    if (dtype == MP_DTYPE_BFLOAT16) return mp_from_bfloat16(((const uint16_t *)data)[at]);
    return mp_load_rare(data, dtype, at);
}
MP_BODY void mp_store_any(void *data, mp_dtype dtype, int64_t at, float value)
{
    if (dtype == MP_DTYPE_FLOAT)
        ((float *)data)[at] = value;
    else if (dtype == MP_DTYPE_BFLOAT16)
        ((uint16_t *)data)[at] = mp_to_bfloat16(value);
    else
        mp_store_rare(data, dtype, at, value);
}

/* ---- over strided operands: f(k, at), where at[i] is the offset of element k in operand i (operand 0 is the output).
 *
 *     struct f { MP_BODY void operator()(int64_t k, const int64_t *at) const; };
 *
 * The loops come from mp_loops_of (executor/kernel/loops.h), which sorts dimensions by the output's strides and merges them. N
 * is the number of operands. */

template <int N> struct mp_places {
    int rank;
    mp_divisor dims[MP_ARRAY_RANK];
    int64_t strides[N][MP_ARRAY_RANK];

    explicit mp_places(const mp_loops *loops)
    {
        rank = loops->rank;
        for (int d = 0; d < MP_ARRAY_RANK; d++) {
            dims[d] = mp_divisor_of(d < rank ? loops->dims[d] : 1);
            for (int i = 0; i < N; i++) strides[i][d] = d < rank ? loops->strides[i][d] : 0;
        }
    }
    MP_BODY void find(int64_t k, int64_t *at) const
    {
        for (int i = 0; i < N; i++) at[i] = 0;
        for (int d = rank - 1; d > 0; d--) {
            int64_t index;
            k = mp_divide_rest(k, &dims[d], &index);
            for (int i = 0; i < N; i++) at[i] += index * strides[i][d];
        }
        for (int i = 0; i < N; i++) at[i] += k * strides[i][0];
    }
};

template <int N, class F> struct mp_placed {
    mp_places<N> places;
    F f;
    MP_BODY void operator()(int64_t k) const
    {
        int64_t at[N];
        places.find(k, at);
        f(k, at);
    }
};

template <int N, class F> static void mp_each_placed(const mp_loops *loops, const F &f)
{
    const mp_placed<N, F> placed = {mp_places<N>(loops), f};
    mp_each(loops->n_elements, placed);
}

/* ---- over blocks of threads with shared memory, in phases: all threads end a phase before any thread begins the next.
 *
 *     struct f {
 *         struct room { float x[32][33]; }; // shared, plain data, up to 48 KB
 *         enum { PHASES = 2 };
 *         MP_BODY void operator()(int phase, int64_t block, int thread, room &shared) const;  // thread < MP_GRID_THREADS
 *     }; */

#ifndef MP_CUDA_TWIN
template <class F> __global__ void __launch_bounds__(MP_GRID_THREADS) mp_each_block_kernel(int64_t n_blocks, F f)
{
    __shared__ typename F::room shared;
    for (int64_t block = blockIdx.x; block < n_blocks; block += gridDim.x) {
#pragma unroll
        for (int phase = 0; phase < F::PHASES; phase++) {
            f(phase, block, (int)threadIdx.x, shared);
            __syncthreads();
        }
    }
}
#endif

template <class F> static void mp_each_block(int64_t n_blocks, const F &f)
{
    if (n_blocks <= 0) return;
#ifdef MP_CUDA_TWIN
    MP_LAUNCHES;
    typename F::room shared;
    for (int64_t block = 0; block < n_blocks; block++)
        for (int phase = 0; phase < F::PHASES; phase++)
            for (int thread = 0; thread < MP_GRID_THREADS; thread++) f(phase, block, thread, shared);
#else
    mp_each_block_kernel<F><<<mp_grid_blocks(n_blocks, 1), MP_GRID_THREADS, 0, mp_cuda_stream()>>>(n_blocks, f);
#endif
}

/* ---- over rows, with reductions: several threads reduce the columns of a row together. These threads pass over the columns
 * PHASES times.
 *
 *     struct f {
 *         struct value { float sum; };     // the reduced value: plain data
 *         enum { PHASES = 1 };             // 1 or more; a phase reads the totals of earlier phases
 *         MP_BODY value none(int phase) const;                                                 // neutral element of join
 *         MP_BODY value at(int phase, int64_t row, int64_t column, const value *totals) const; // value of one column
 *         MP_BODY value join(int phase, value a, value b) const;                               // in a fixed order
 *         MP_BODY void put(int64_t row, int64_t column, const value *totals) const;            // after the last phase
 *         MP_BODY void end(int64_t row, const value *totals) const;                            // once per row, any time after
 *     };
 *
 * Thread t reduces the columns t, t + width, ... in order. Then threads are joined as a tree, t with t + half. The width is 32
 * for rows of up to MP_SHORT_ROW columns, and 256 for longer rows. If MP_MANY_ROWS or more rows are adjacent in memory, as
 * stated by the caller, the width is 1. put may overwrite the data that `at` reads for the same column. Apart from that, all
 * columns of a row have been read before its first put runs. */

enum { MP_SHORT_ROW = 512, MP_MANY_ROWS = 1 << 12, MP_WARP = 32 };

#ifdef MP_CUDA_TWIN

template <int WIDTH, class F> static void mp_rows_of_width(int64_t n_rows, int64_t n_columns, const F &f)
{
    MP_LAUNCHES;
    typename F::value part[WIDTH], totals[F::PHASES] = {};
    for (int64_t row = 0; row < n_rows; row++) {
        for (int phase = 0; phase < F::PHASES; phase++) {
            for (int t = 0; t < WIDTH; t++) {
                part[t] = f.none(phase);
                for (int64_t c = t; c < n_columns; c += WIDTH) part[t] = f.join(phase, part[t], f.at(phase, row, c, totals));
            }
            for (int half = WIDTH / 2; half; half /= 2)
                for (int t = 0; t < half; t++) part[t] = f.join(phase, part[t], part[t + half]);
            totals[phase] = part[0];
        }
        for (int64_t c = 0; c < n_columns; c++) f.put(row, c, totals);
        f.end(row, totals);
    }
}

#else

/* A barrier for the WIDTH threads that process one row. */
template <int WIDTH> static __device__ __forceinline__ void mp_row_barrier()
{
    if (WIDTH > MP_WARP)
        __syncthreads();
    else if (WIDTH > 1)
        __syncwarp();
}

template <int WIDTH, class F>
__global__ void __launch_bounds__(MP_GRID_THREADS) mp_rows_kernel(int64_t n_rows, int64_t n_columns, F f)
{
    enum { ROWS = MP_GRID_THREADS / WIDTH };
    __shared__ typename F::value room[ROWS][WIDTH];
    typename F::value totals[F::PHASES] = {};
    const int t = (int)(threadIdx.x % WIDTH);
    typename F::value *part = room[threadIdx.x / WIDTH];
    for (int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / WIDTH; row < n_rows; row += (int64_t)gridDim.x * ROWS) {
#pragma unroll
        for (int phase = 0; phase < F::PHASES; phase++) {
            typename F::value mine = f.none(phase);
            for (int64_t c = t; c < n_columns; c += WIDTH) mine = f.join(phase, mine, f.at(phase, row, c, totals));
            part[t] = mine;
            mp_row_barrier<WIDTH>();
            for (int half = WIDTH / 2; half; half /= 2) {
                if (t < half) part[t] = f.join(phase, part[t], part[t + half]);
                mp_row_barrier<WIDTH>();
            }
            totals[phase] = part[0];
            mp_row_barrier<WIDTH>();
        }
        for (int64_t c = t; c < n_columns; c += WIDTH) f.put(row, c, totals);
        if (t == 0) f.end(row, totals);
    }
}

template <int WIDTH, class F> static void mp_rows_of_width(int64_t n_rows, int64_t n_columns, const F &f)
{
    const unsigned blocks = mp_grid_blocks(n_rows, MP_GRID_THREADS / WIDTH);
    mp_rows_kernel<WIDTH, F><<<blocks, MP_GRID_THREADS, 0, mp_cuda_stream()>>>(n_rows, n_columns, f);
}

#endif

template <class F> static void mp_rows(int64_t n_rows, int64_t n_columns, const F &f)
{
    if (n_rows <= 0) return;
    if (n_columns <= MP_SHORT_ROW)
        mp_rows_of_width<MP_WARP>(n_rows, n_columns, f);
    else
        mp_rows_of_width<MP_GRID_THREADS>(n_rows, n_columns, f);
}

template <class F> static void mp_rows_that_lie(bool side_by_side, int64_t n_rows, int64_t n_columns, const F &f)
{
    if (side_by_side && n_rows >= MP_MANY_ROWS)
        mp_rows_of_width<1>(n_rows, n_columns, f);
    else
        mp_rows(n_rows, n_columns, f);
}

/* ---- common reductions, from which the struct of a kernel inherits: struct f : mp_sums { ... }; struct f : mp_largest {
 * ... }; */

struct mp_sums {
    struct value {
        float x;
    };
    MP_BODY value none(int) const { return value{0}; }
    MP_BODY value join(int, value a, value b) const { return value{a.x + b.x}; }
};

struct mp_double_sums {
    struct value {
        double x;
    };
    MP_BODY value none(int) const { return value{0}; }
    MP_BODY value join(int, value a, value b) const { return value{a.x + b.x}; }
};

/* A reduction that finds the largest value of a row and the first column with this value. A NaN counts as larger than all
 * numbers. */
struct mp_largest {
    struct value {
        float x;
        int64_t column; /* column of the largest value so far; -1: no column has been compared yet */
    };
    MP_BODY value none(int) const { return value{-INFINITY, -1}; }
    MP_BODY value join(int, value a, value b) const
    {
        if (a.column < 0 || b.column < 0) return a.column < 0 ? b : a;
        const bool a_is_nan = a.x != a.x, b_is_nan = b.x != b.x;
        const bool same = a.x == b.x || (a_is_nan && b_is_nan);
        if (same) return a.column < b.column ? a : b;
        return a_is_nan || (!b_is_nan && a.x > b.x) ? a : b;
    }
};
