/* vectors.cuh - loads and stores of up to 16 bytes of adjacent FLOAT or BFLOAT16 elements.
 *
 * A vector is the W adjacent elements [W v, W v + W) of an array that is aligned to 16 bytes. A kernel over vectors has one
 * thread per vector, mp_vectors<W>(n) in total. The last vector may have fewer than W elements; mp_vector_size returns its
 * number of elements. If a kernel is compiled for a type T, W is mp_width<T>, the number of elements in 16 bytes, and no type
 * test is needed at run time. If types are only known at run time, W is 4.
 *
 * The compiler keeps a thread's arrays in registers only if it knows every index. Therefore loops always run to W, and
 * elements beyond the size are skipped inside the loop. */
#pragma once

#include "executor/cuda/grid/grid.cuh"

template <mp_dtype T> constexpr int mp_width = T == MP_DTYPE_BFLOAT16 ? 8 : 4;

template <int W> static inline int64_t mp_vectors(int64_t n)
{
    return (n + W - 1) / W;
}
template <int W> MP_BODY int mp_vector_size(int64_t n, int64_t v)
{
    return n - v * W < W ? (int)(n - v * W) : W;
}

/* True if an array can be read and written in vectors of 16 bytes: its type is FLOAT or BFLOAT16, and its address is aligned.
 */
static inline bool mp_takes_vectors(const void *data, mp_dtype dtype)
{
    return (dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16) && (uintptr_t)data % 16 == 0;
}

struct alignas(16) mp_four_floats {
    float x[4];
};
/* A vector of W BFLOAT16 elements, stored as 32-bit words of two elements. The first element of a word is in its lower half. */
template <int W> struct alignas(2 * W) mp_halves {
    uint32_t pair[W / 2];
};

MP_BODY float mp_bits_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

MP_BODY uint32_t mp_pair_of_halves(float first, float second)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return mp_to_bfloat16(first) | (uint32_t)mp_to_bfloat16(second) << 16;
#endif
}

/* Read or write one element of FLOAT or BFLOAT16. */
MP_BODY float mp_load_one(const void *data, mp_dtype dtype, int64_t at)
{
    return dtype == MP_DTYPE_FLOAT ? ((const float *)data)[at] : mp_from_bfloat16(((const uint16_t *)data)[at]);
}
MP_BODY void mp_store_one(void *data, mp_dtype dtype, int64_t at, float value)
{
    if (dtype == MP_DTYPE_FLOAT)
        ((float *)data)[at] = value;
    else
        ((uint16_t *)data)[at] = mp_to_bfloat16(value);
}

/* Reads vector v of an array as floats; elements beyond `size` become 0. */
template <int W> MP_BODY void mp_load_vector(const void *data, mp_dtype dtype, int64_t v, int size, float (&to)[W])
{
    if (size < W) {
        MP_UNROLL
        for (int e = 0; e < W; e++) to[e] = e < size ? mp_load_one(data, dtype, v * W + e) : 0;
    } else if (dtype == MP_DTYPE_FLOAT) {
        MP_UNROLL
        for (int k = 0; k < W / 4; k++) {
            const mp_four_floats four = ((const mp_four_floats *)data)[v * (W / 4) + k];
            MP_UNROLL
            for (int e = 0; e < 4; e++) to[4 * k + e] = four.x[e];
        }
    } else {
        const mp_halves<W> halves = ((const mp_halves<W> *)data)[v];
        MP_UNROLL
        for (int k = 0; k < W / 2; k++) {
            to[2 * k] = mp_bits_as_float(halves.pair[k] << 16);
            to[2 * k + 1] = mp_bits_as_float(halves.pair[k] & 0xffff0000);
        }
    }
}

template <int W> MP_BODY void mp_store_vector(void *data, mp_dtype dtype, int64_t v, int size, const float (&from)[W])
{
    if (size < W) {
        MP_UNROLL
        for (int e = 0; e < W; e++)
            if (e < size) mp_store_one(data, dtype, v * W + e, from[e]);
    } else if (dtype == MP_DTYPE_FLOAT) {
        MP_UNROLL
        for (int k = 0; k < W / 4; k++) {
            mp_four_floats four;
            MP_UNROLL
            for (int e = 0; e < 4; e++) four.x[e] = from[4 * k + e];
            ((mp_four_floats *)data)[v * (W / 4) + k] = four;
        }
    } else {
        mp_halves<W> halves;
        MP_UNROLL
        for (int k = 0; k < W / 2; k++) halves.pair[k] = mp_pair_of_halves(from[2 * k], from[2 * k + 1]);
        ((mp_halves<W> *)data)[v] = halves;
    }
}

/* Runs STATEMENT with T defined as the C++ type of `dtype`, which must be FLOAT or BFLOAT16. */
#define MP_BY_DTYPE(dtype, STATEMENT)                 \
    do {                                              \
        if ((dtype) == MP_DTYPE_FLOAT) {              \
            constexpr mp_dtype T = MP_DTYPE_FLOAT;    \
            STATEMENT;                                \
        } else {                                      \
            constexpr mp_dtype T = MP_DTYPE_BFLOAT16; \
            STATEMENT;                                \
        }                                             \
    } while (0)
