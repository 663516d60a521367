/* dropout_cuda.cuh - the elements of a vector that a dropout keeps, for every GPU kernel that drops elements. */
#pragma once

#include "executor/cuda/grid/vectors.cuh"

extern "C" {
#include "executor/cuda/device/step_values.h"
#include "executor/operators/randoms/randoms.h"
}

/* Sets kept[e] to 1 if element W v + e is kept, else to 0. One call of the generator gives the random words of four elements.
 */
template <int W> MP_BODY void mp_draw_kept(const mp_cuda_pass *pass, uint32_t op, float ratio, int64_t v, uint8_t (&kept)[W])
{
    enum { QUAD = 4 };
    MP_UNROLL
    for (int q = 0; q < W / QUAD; q++) {
        const mp_philox_block words = mp_random_quad(pass->seed, pass->step, op, (uint64_t)(v * (W / QUAD) + q));
        MP_UNROLL
        for (int e = 0; e < QUAD; e++) kept[q * QUAD + e] = mp_uniform_of(words.word[e]) >= ratio;
    }
}

template <int W> MP_BODY void mp_drop_vector(const uint8_t (&kept)[W], float factor, float (&x)[W])
{
    MP_UNROLL
    for (int e = 0; e < W; e++) x[e] = kept[e] ? x[e] * factor : 0;
}
