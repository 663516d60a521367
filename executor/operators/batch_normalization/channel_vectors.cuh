/* channel_vectors.cuh - batch normalization with innermost channels, in vectors of 16 bytes. A thread processes a fixed set of
 * channels and keeps their scales and shifts in registers. It reads row after row with several loads in flight.
 *
 * Sums: a thread block processes some adjacent vectors, and one row per group of its threads at a time. A thread sums a few
 * rows in float, the block sums in double, and the sums of the blocks are added in double. Moments are sums of x minus the
 * channel's first element, so that a large mean does not reduce the precision of the variance. */
#pragma once

#include "executor/cuda/grid/blocks.cuh"
#include "executor/cuda/grid/vectors.cuh"

extern "C" {
#include "executor/operators/batch_normalization/channel_norm_cuda.h"
}

/* Placed before a loop over rows: unrolls the loop by TERMS::ROWS, so that TERMS::ROWS loads are in flight. */
#ifdef MP_CUDA_TWIN
#define MP_CHANNEL_ROWS
#else
#define MP_CHANNEL_ROWS _Pragma("unroll TERMS::ROWS")
#endif

/* Returns (v - center) * gain + shift, a normalized value. All kernels use this function, so the result is the same in every
 * layout. */
MP_BODY float mp_channel_value(float v, float center, float gain, float shift)
{
    return fmaf(v - center, gain, shift);
}
MP_BODY float mp_channel_relu(float y)
{
    return y < 0 ? 0 : y;
}
MP_BODY float mp_channel_unit(const mp_channel_norm &n, int64_t c)
{
    return n.from_output ? 1 / mp_load_one(n.scale.data, n.scale.dtype, c) : n.rstd[c];
}

/* Number of elements per vector: the elements in 16 bytes, or 8 if a vector has one byte of sign bits. */
template <mp_dtype T, mp_channel_end END> constexpr int mp_channel_width = END == MP_CHANNEL_ADDED_RELU ? 8 : mp_width<T>;

/* The division of rows among thread blocks; it depends only on sizes. */
struct mp_channel_cut {
    int64_t vectors;    /* number of vectors per row */
    int columns, lanes; /* columns: adjacent vectors that a thread block processes; lanes: rows that it processes at a time */
    int64_t chunks;     /* number of thread blocks that share the channels of a row */
    int64_t length;     /* rows per thread block */
    int64_t n_parts;    /* number of thread blocks that share the rows */
};

static inline mp_channel_cut mp_channel_cut_of(const mp_channel_norm *c, int width)
{
    /* blocks: target number of thread blocks; least, most: limits for the number of rows per thread */
    const int64_t blocks = 1024, least = 32, most = 128;
    mp_channel_cut cut;
    cut.vectors = c->channels / width;
    cut.columns = cut.vectors < MP_GRID_THREADS ? (int)cut.vectors : (int)MP_GRID_THREADS;
    cut.lanes = MP_GRID_THREADS / cut.columns;
    cut.chunks = (cut.vectors + cut.columns - 1) / cut.columns;
    int64_t rows = c->positions * cut.chunks / (blocks * cut.lanes);
    rows = rows < least ? least : rows > most ? most : rows;
    cut.length = rows * cut.lanes;
    cut.n_parts = (c->positions + cut.length - 1) / cut.length;
    return cut;
}

struct mp_float_pair {
    float a, b;
};

/* The center, gain and shift of the channels of vector v, for the kernels of backward. */
template <int W> struct mp_channel_factors {
    float center[W], gain[W], shift[W];
    MP_BODY mp_channel_factors(const mp_channel_norm &n, int64_t v)
    {
        MP_UNROLL
        for (int e = 0; e < W; e++) {
            const int64_t c = v * W + e;
            shift[e] = n.shift.data ? mp_load_one(n.shift.data, n.shift.dtype, c) : 0;
            center[e] = n.from_output ? shift[e] : n.mean[c];
            gain[e] = n.rstd[c] * mp_load_one(n.scale.data, n.scale.dtype, c);
        }
    }
};

/* Returns in g the vector dy, with zeros where the fused ReLU's output is not above zero; k is the index of the vector. */
template <mp_dtype T, mp_channel_end END, int W>
MP_BODY void mp_channel_masked(const mp_channel_norm &n, const mp_channel_factors<W> &f, int64_t k, const float (&value)[W],
                               float (&g)[W])
{
    mp_load_vector(n.dy.data, T, k, W, g);
    if (END == MP_CHANNEL_PLAIN) return;
    const unsigned positive = END == MP_CHANNEL_ADDED_RELU ? n.positive[k] : 0;
    MP_UNROLL
    for (int e = 0; e < W; e++) {
        const bool counts = END == MP_CHANNEL_ADDED_RELU ? positive >> e & 1
                                                         : mp_channel_value(value[e], f.center[e], f.gain[e], f.shift[e]) > 0;
        g[e] = counts ? g[e] : 0;
    }
}

/* The terms that forward sums over rows for mean and variance: x minus the first row, and the square of this difference. */
template <mp_dtype T> struct mp_moment_terms {
    enum { W = mp_width<T>, ROWS = 8 };
    mp_channel_norm n;
    struct kept {
        float first[W];
        MP_BODY kept(const mp_channel_norm &n, int64_t v) { mp_load_vector(n.value.data, T, v, W, first); }
    };
    MP_BODY void add(const kept &own, int64_t k, float (&a)[W], float (&b)[W]) const
    {
        float x[W];
        mp_load_vector(n.value.data, T, k, W, x);
        MP_UNROLL
        for (int e = 0; e < W; e++) {
            const float d = x[e] - own.first[e];
            a[e] += d;
            b[e] += d * d;
        }
    }
};

/* The terms that backward sums over rows: dy, and dy times (value minus its center). */
template <mp_dtype T, mp_channel_end END> struct mp_gradient_terms {
    enum { W = mp_channel_width<T, END>, ROWS = 4 };
    mp_channel_norm n;
    typedef mp_channel_factors<W> kept;
    MP_BODY void add(const kept &own, int64_t k, float (&a)[W], float (&b)[W]) const
    {
        float x[W], g[W];
        mp_load_vector(n.value.data, T, k, W, x);
        mp_channel_masked<T, END>(n, own, k, x, g);
        MP_UNROLL
        for (int e = 0; e < W; e++) {
            a[e] += g[e];
            b[e] += g[e] * (x[e] - own.center[e]);
        }
    }
};

template <class TERMS> struct mp_channel_sums {
    enum { THREADS = MP_GRID_THREADS, W = TERMS::W };
    struct shared {
        float a[W][THREADS], b[W][THREADS];
    };
    struct own {
    };
    TERMS terms;
    mp_channel_cut cut;
    mp_float_pair *partial; /* the sums of thread block p (along the rows) and channel c are at index p * channels + c */

    template <class BLOCK> MP_BODY void run(int64_t block, BLOCK &b) const
    {
        const int64_t part = block / cut.chunks, left = block % cut.chunks * cut.columns, first = part * cut.length;
        const int64_t until = first + cut.length < terms.n.positions ? first + cut.length : terms.n.positions;
        b.phase([&](int t, shared &all, own &) {
            const int64_t v = left + t % cut.columns;
            const int lane = t / cut.columns;
            float sum[W] = {}, product[W] = {};
            if (lane < cut.lanes && v < cut.vectors) {
                const typename TERMS::kept kept(terms.n, v);
                MP_CHANNEL_ROWS
                for (int64_t p = first + lane; p < until; p += cut.lanes) terms.add(kept, p * cut.vectors + v, sum, product);
            }
            MP_UNROLL
            for (int e = 0; e < W; e++) {
                all.a[e][t] = sum[e];
                all.b[e][t] = product[e];
            }
        });
        b.phase([&](int t, shared &all, own &) {
            for (int c = t; c < cut.columns * W; c += THREADS) {
                const int column = c / W, e = c % W;
                double sum = 0, product = 0;
                if (left + column >= cut.vectors) break;
                for (int lane = 0; lane < cut.lanes; lane++) {
                    sum += all.a[e][lane * cut.columns + column];
                    product += all.b[e][lane * cut.columns + column];
                }
                partial[part * terms.n.channels + left * W + c] = {(float)sum, (float)product};
            }
        });
    }
};

/* The division of elements among threads: thread k processes vector k % vectors of the rows k / vectors, k / vectors +
 * n_lanes, ... */
struct mp_channel_lanes {
    int64_t vectors, n_lanes, positions;
};

static inline mp_channel_lanes mp_channel_lanes_of(const mp_channel_norm *c, int width)
{
    enum { ROWS = 16 }; /* rows per thread */
    return mp_channel_lanes{c->channels / width, (c->positions + ROWS - 1) / ROWS, c->positions};
}

template <mp_dtype T, mp_channel_end END> struct mp_channel_apply {
    enum { W = mp_channel_width<T, END>, ROWS = 4 };
    mp_channel_norm n;
    mp_channel_lanes lanes;

    template <int N> MP_BODY void rows(const mp_channel_factors<W> &f, int64_t k, int64_t step) const
    {
        float x[N][W], z[N][W];
        MP_UNROLL
        for (int r = 0; r < N; r++) {
            mp_load_vector(n.value.data, T, k + r * step, W, x[r]);
            if (END == MP_CHANNEL_ADDED_RELU) mp_load_vector(n.z.data, T, k + r * step, W, z[r]);
        }
        MP_UNROLL
        for (int r = 0; r < N; r++) {
            unsigned positive = 0;
            MP_UNROLL
            for (int e = 0; e < W; e++) {
                float y = mp_channel_value(x[r][e], f.center[e], f.gain[e], f.shift[e]);
                if (END == MP_CHANNEL_ADDED_RELU) y += z[r][e];
                positive |= (y > 0 ? 1u : 0u) << e;
                x[r][e] = END != MP_CHANNEL_PLAIN ? mp_channel_relu(y) : y;
            }
            mp_store_vector(n.y.data, T, k + r * step, W, x[r]);
            if (END == MP_CHANNEL_ADDED_RELU && n.positive) n.positive[k + r * step] = (uint8_t)positive;
        }
    }
    MP_BODY void operator()(int64_t index) const
    {
        const int64_t v = index % lanes.vectors, step = lanes.n_lanes * lanes.vectors;
        const mp_channel_factors<W> f(n, v);
        int64_t p = index / lanes.vectors;
        for (; p + (ROWS - 1) * lanes.n_lanes < lanes.positions; p += ROWS * lanes.n_lanes)
            rows<ROWS>(f, p * lanes.vectors + v, step);
        for (; p < lanes.positions; p += lanes.n_lanes) rows<1>(f, p * lanes.vectors + v, step);
    }
};

/* Computes dx. `averages` has two values per channel: the mean of dy, and the mean of dy times the normalized value. */
template <mp_dtype T, mp_channel_end END> struct mp_channel_gradient {
    enum { W = mp_channel_width<T, END>, ROWS = 2 };
    mp_channel_norm n;
    mp_channel_lanes lanes;
    const float *averages;

    template <int N>
    MP_BODY void rows(const mp_channel_factors<W> &f, const float (&slope)[W], const float (&offset)[W], int64_t k,
                      int64_t step) const
    {
        float x[N][W], g[N][W], d[W];
        MP_UNROLL
        for (int r = 0; r < N; r++) {
            mp_load_vector(n.value.data, T, k + r * step, W, x[r]);
            mp_channel_masked<T, END>(n, f, k + r * step, x[r], g[r]);
        }
        MP_UNROLL
        for (int r = 0; r < N; r++) {
            if (n.dx.data) {
                MP_UNROLL
                for (int e = 0; e < W; e++) d[e] = f.gain[e] * g[r][e] + (slope[e] * (x[r][e] - f.center[e]) + offset[e]);
                mp_store_vector(n.dx.data, T, k + r * step, W, d);
            }
            if (END != MP_CHANNEL_ADDED_RELU || !n.dz.data) continue;
            /* dz must be read after dx is written: if both have one address, the gradient of the added tensor is added to dx */
            if (n.add_dz) mp_load_vector(n.dz.data, T, k + r * step, W, d);
            MP_UNROLL
            for (int e = 0; e < W; e++) d[e] = g[r][e] + (n.add_dz ? d[e] : 0);
            mp_store_vector(n.dz.data, T, k + r * step, W, d);
        }
    }
    MP_BODY void operator()(int64_t index) const
    {
        const int64_t v = index % lanes.vectors, step = lanes.n_lanes * lanes.vectors;
        const mp_channel_factors<W> f(n, v);
        float slope[W], offset[W];
        int64_t p = index / lanes.vectors;
        MP_UNROLL
        for (int e = 0; e < W; e++) {
            const int64_t c = v * W + e;
            offset[e] = -f.gain[e] * averages[2 * c];
            slope[e] = -f.gain[e] * averages[2 * c + 1] * mp_channel_unit(n, c);
        }
        for (; p + (ROWS - 1) * lanes.n_lanes < lanes.positions; p += ROWS * lanes.n_lanes)
            rows<ROWS>(f, slope, offset, p * lanes.vectors + v, step);
        for (; p < lanes.positions; p += lanes.n_lanes) rows<1>(f, slope, offset, p * lanes.vectors + v, step);
    }
};
