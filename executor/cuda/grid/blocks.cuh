/* blocks.cuh - kernels whose threads work on one thing together, in shared memory and in phases.
 *
 *     struct f {
 *         enum { THREADS = 256 };
 *         struct shared { float tile[64][65]; };  // of a block
 *         struct own { float sums[4]; };          // of a thread, from phase to phase
 *         template <class BLOCK> MP_BODY void run(int64_t k, BLOCK &b) const   // piece of work k
 *         {
 *             b.phase([&](int t, shared &s, own &o) { ... });  // all threads, then a barrier
 *         }
 *     };
 *
 * What `run` does between phases it does alike in every thread. In a phase no thread reads what another writes in it.
 */
#pragma once

#include "executor/cuda/grid/grid.cuh"

#ifdef MP_CUDA_TWIN

template <class F> struct mp_block {
    typename F::shared all;
    typename F::own own[F::THREADS];
    template <class P> MP_BODY void phase(const P &p)
    {
        for (int t = 0; t < F::THREADS; t++) p(t, all, own[t]);
    }
};

template <class F> static void mp_blocks(int64_t n, const F &f)
{
    MP_LAUNCHES;
    static thread_local mp_block<F> b;
    for (int64_t k = 0; k < n; k++) f.run(k, b);
}

#else

template <class F> struct mp_block {
    typename F::shared &all;
    typename F::own own;
    template <class P> MP_BODY void phase(const P &p)
    {
        p((int)threadIdx.x, all, own);
        __syncthreads();
    }
};

template <class F> __global__ void __launch_bounds__(F::THREADS) mp_blocks_kernel(int64_t n, F f)
{
    __shared__ typename F::shared all;
    mp_block<F> b = {all, {}};
    for (int64_t k = blockIdx.x; k < n; k += gridDim.x) f.run(k, b);
}

template <class F> static void mp_blocks(int64_t n, const F &f)
{
    if (n > 0) mp_blocks_kernel<F><<<mp_grid_blocks(n, 1), F::THREADS, 0, mp_cuda_stream()>>>(n, f);
}

#endif
