/* blocks.cuh - GPU kernels whose threads cooperate, in two forms: blocks with shared memory that run in phases, and warps.
 *
 *     struct f {
 *         enum { THREADS = 256 };
 *         struct shared { float tile[64][65]; };  // per block
 *         struct own { float sums[4]; };          // per thread, kept from phase to phase
 *         template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const   // work item k
 *         {
 *             b.phase([&](int t, shared &s, own &o) { ... });  // all threads, then a barrier
 *             b.threads([&](int t, own &o) { ... });           // all threads, without a barrier and shared memory
 *             b.shares([&](int t, shared &s, own &o) { ... }); // all threads, with shared memory and without a barrier
 *             b.barrier();                                     // ends a phase of several calls of `shares`
 *             b.warp_sum(&own::sum);                           // every thread gets the sum over its warp, in a fixed order
 *         }
 *     };
 *
 * All threads must execute the same code in `run` between phases. Within a phase, no thread may read data that another thread
 * writes. Shared memory of more than 48 KB is requested at the launch. */
#pragma once

#include "executor/cuda/grid/grid.cuh"

#ifdef MP_CUDA_TWIN

/* Replaces member x of each lane of a warp by the sum over all lanes, added as a tree. */
template <class OWN> MP_BODY void mp_sum_of_lanes(OWN *own, float OWN::*x)
{
    float before[MP_WARP];
    for (int half = MP_WARP / 2; half; half /= 2) {
        for (int lane = 0; lane < MP_WARP; lane++) before[lane] = own[lane].*x;
        for (int lane = 0; lane < MP_WARP; lane++) own[lane].*x += before[lane ^ half];
    }
}

template <class F> struct mp_block {
    typename F::shared all;
    typename F::own own[F::THREADS];
    template <class P> MP_BODY void phase(const P &p)
    {
        for (int t = 0; t < F::THREADS; t++) p(t, all, own[t]);
    }
    template <class P> MP_BODY void threads(const P &p)
    {
        for (int t = 0; t < F::THREADS; t++) p(t, own[t]);
    }
    template <class P> MP_BODY void shares(const P &p) { phase(p); }
    MP_BODY void barrier() {}
    MP_BODY void warp_sum(float F::own::*x)
    {
        for (int t = 0; t < F::THREADS; t += MP_WARP) mp_sum_of_lanes(own + t, x);
    }
};

template <class F> static void mp_blocks(int64_t n, const F &f)
{
    MP_LAUNCHES;
    static thread_local mp_block<F> b;
    for (int64_t k = 0; k < n; k++) f.run(k, b);
}

#else

/* Returns the sum of x over all lanes of a warp, added as a tree. */
static __device__ __forceinline__ float mp_sum_of_lanes(float x)
{
#pragma unroll
    for (int half = MP_WARP / 2; half; half /= 2) x += __shfl_xor_sync(0xffffffff, x, half);
    return x;
}

template <class F> struct mp_block {
    typename F::shared &all;
    typename F::own own;
    template <class P> MP_BODY void phase(const P &p)
    {
        p((int)threadIdx.x, all, own);
        __syncthreads();
    }
    template <class P> MP_BODY void threads(const P &p) { p((int)threadIdx.x, own); }
    template <class P> MP_BODY void shares(const P &p) { p((int)threadIdx.x, all, own); }
    MP_BODY void barrier() { __syncthreads(); }
    MP_BODY void warp_sum(float F::own::*x) { own.*x = mp_sum_of_lanes(own.*x); }
};

template <class F> __global__ void __launch_bounds__(F::THREADS) mp_blocks_kernel(int64_t n, F f)
{
    __shared__ typename F::shared all;
    mp_block<F> b = {all, {}};
    for (int64_t k = blockIdx.x; k < n; k += gridDim.x) f.run(k, b);
}

template <class F> __global__ void __launch_bounds__(F::THREADS) mp_large_blocks_kernel(int64_t n, F f)
{
    extern __shared__ float4 room[];
    mp_block<F> b = {*(typename F::shared *)room, {}};
    for (int64_t k = blockIdx.x; k < n; k += gridDim.x) f.run(k, b);
}

template <class F> static void mp_blocks(int64_t n, const F &f)
{
    constexpr int bytes = (int)sizeof(typename F::shared);
    const unsigned blocks = n > 0 ? mp_grid_blocks(n, 1) : 0;
    if (!blocks) return;
    if constexpr (bytes > 48 << 10) {
        cudaFuncSetAttribute(mp_large_blocks_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        mp_large_blocks_kernel<F><<<blocks, F::THREADS, bytes, mp_cuda_stream()>>>(n, f);
    } else {
        mp_blocks_kernel<F><<<blocks, F::THREADS, 0, mp_cuda_stream()>>>(n, f);
    }
}

#endif

/* ---- kernels with one warp per row, whose lanes keep the row in registers.
 *
 *     struct f {
 *         struct own { float x[8], sum; };  // per lane, kept between calls of w.lanes
 *         template <class WARP> MP_BODY void run(int64_t row, WARP &w) const
 *         {
 *             w.lanes([&](int lane, own &o) { ... });  // all lanes; no lane reads another lane's data
 *             w.sum(&own::sum);                        // every lane gets the sum, added in a fixed order
 *         }
 *     }; */

#ifdef MP_CUDA_TWIN

template <class F> struct mp_warp {
    typename F::own own[MP_WARP];
    template <class P> MP_BODY void lanes(const P &p)
    {
        for (int lane = 0; lane < MP_WARP; lane++) p(lane, own[lane]);
    }
    MP_BODY void sum(float F::own::*x) { mp_sum_of_lanes(own, x); }
};

template <class F> static void mp_warps(int64_t n_rows, const F &f)
{
    MP_LAUNCHES;
    mp_warp<F> w;
    for (int64_t row = 0; row < n_rows; row++) f.run(row, w);
}

#else

template <class F> struct mp_warp {
    typename F::own own;
    template <class P> __device__ __forceinline__ void lanes(const P &p) { p((int)(threadIdx.x % MP_WARP), own); }
    __device__ __forceinline__ void sum(float F::own::*x) { own.*x = mp_sum_of_lanes(own.*x); }
};

template <class F> __global__ void __launch_bounds__(MP_GRID_THREADS) mp_warps_kernel(int64_t n_rows, F f)
{
    enum { ROWS = MP_GRID_THREADS / MP_WARP };
    mp_warp<F> w;
    for (int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / MP_WARP; row < n_rows; row += (int64_t)gridDim.x * ROWS)
        f.run(row, w);
}

template <class F> static void mp_warps(int64_t n_rows, const F &f)
{
    const unsigned blocks = mp_grid_blocks(n_rows, MP_GRID_THREADS / MP_WARP);
    if (n_rows > 0) mp_warps_kernel<F><<<blocks, MP_GRID_THREADS, 0, mp_cuda_stream()>>>(n_rows, f);
}

#endif
