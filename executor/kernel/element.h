/* element.h - loads and stores one element of any type as a float, a double or an integer, and computes an element's offset.
 * All backends use it. nvcc compiles this file for the GPU too, so it uses no library of the host. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "estimator/model/model.h"

/* Marks an inline function that both the host and the GPU can call. */
#ifdef __CUDACC__
#define MP_INLINE static __host__ __device__ __forceinline__
#else
#define MP_INLINE static inline __attribute__((always_inline))
#endif

/* Returns the offset of element k, counted row-major over n dimensions; k is less than the product of the dimensions. */
MP_INLINE int64_t mp_strided_offset(int n, const int64_t *dims, const int64_t *strides, int64_t k)
{
    int64_t at = 0;
    for (int d = n - 1; d > 0; d--) {
        at += k % dims[d] * strides[d];
        k /= dims[d];
    }
    return n > 0 ? at + k * strides[0] : 0;
}

MP_INLINE float mp_from_bfloat16(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Rounds to the nearest bfloat16, ties to even; a NaN stays a NaN. */
MP_INLINE uint16_t mp_to_bfloat16(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    uint32_t rounded = (word + 0x7fff + (word >> 16 & 1)) >> 16;
    return (uint16_t)((word & 0x7fffffff) > 0x7f800000 ? (word >> 16) | 0x40 : rounded);
}

/* Returns x truncated toward zero. If int64_t cannot hold x, returns INT64_MIN as x86 does; the C conversion would be
 * undefined. */
MP_INLINE int64_t mp_whole_of(double x)
{
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

/* Reads an element as an integer: floats are truncated, booleans are 0 and 1. */
MP_INLINE int64_t mp_load_whole(const void *data, mp_dtype dtype, int64_t at)
{
    switch (dtype) {
    case MP_DTYPE_INT64:
    case MP_DTYPE_UINT64:
        return ((const int64_t *)data)[at];
    case MP_DTYPE_INT32:
        return ((const int32_t *)data)[at];
    case MP_DTYPE_UINT32:
        return ((const uint32_t *)data)[at];
    case MP_DTYPE_INT16:
        return ((const int16_t *)data)[at];
    case MP_DTYPE_UINT16:
        return ((const uint16_t *)data)[at];
    case MP_DTYPE_INT8:
        return ((const int8_t *)data)[at];
    case MP_DTYPE_UINT8:
        return ((const uint8_t *)data)[at];
    case MP_DTYPE_BOOL:
        return ((const uint8_t *)data)[at] != 0;
    case MP_DTYPE_DOUBLE:
        return mp_whole_of(((const double *)data)[at]);
    case MP_DTYPE_FLOAT:
        return mp_whole_of((double)((const float *)data)[at]);
    default:
        return mp_whole_of((double)mp_from_bfloat16(((const uint16_t *)data)[at]));
    }
}

MP_INLINE void mp_store_whole(void *data, mp_dtype dtype, int64_t at, int64_t value)
{
    switch (dtype) {
    case MP_DTYPE_INT64:
    case MP_DTYPE_UINT64:
        ((int64_t *)data)[at] = value;
        break;
    case MP_DTYPE_INT32:
    case MP_DTYPE_UINT32:
        ((int32_t *)data)[at] = (int32_t)value;
        break;
    case MP_DTYPE_INT16:
    case MP_DTYPE_UINT16:
        ((int16_t *)data)[at] = (int16_t)value;
        break;
    case MP_DTYPE_INT8:
    case MP_DTYPE_UINT8:
        ((int8_t *)data)[at] = (int8_t)value;
        break;
    case MP_DTYPE_BOOL:
        ((uint8_t *)data)[at] = value != 0;
        break;
    case MP_DTYPE_DOUBLE:
        ((double *)data)[at] = (double)value;
        break;
    case MP_DTYPE_FLOAT:
        ((float *)data)[at] = (float)value;
        break;
    default:
        ((uint16_t *)data)[at] = mp_to_bfloat16((float)value);
    }
}

MP_INLINE float mp_load_float(const void *data, mp_dtype dtype, int64_t at)
{
    if (dtype == MP_DTYPE_FLOAT) return ((const float *)data)[at];
    if (dtype == MP_DTYPE_BFLOAT16) return mp_from_bfloat16(((const uint16_t *)data)[at]);
    if (dtype == MP_DTYPE_DOUBLE) return (float)((const double *)data)[at];
    return (float)mp_load_whole(data, dtype, at);
}

MP_INLINE void mp_store_float(void *data, mp_dtype dtype, int64_t at, float value)
{
    if (dtype == MP_DTYPE_FLOAT)
        ((float *)data)[at] = value;
    else if (dtype == MP_DTYPE_BFLOAT16)
        ((uint16_t *)data)[at] = mp_to_bfloat16(value);
    else if (dtype == MP_DTYPE_DOUBLE)
        ((double *)data)[at] = (double)value;
    else
        mp_store_whole(data, dtype, at, dtype == MP_DTYPE_BOOL ? value != 0 : mp_whole_of((double)value));
}

/* Reads an element as a double: a DOUBLE keeps all its digits. */
MP_INLINE double mp_load_real(const void *data, mp_dtype dtype, int64_t at)
{
    return dtype == MP_DTYPE_DOUBLE ? ((const double *)data)[at] : (double)mp_load_float(data, dtype, at);
}

MP_INLINE void mp_store_real(void *data, mp_dtype dtype, int64_t at, double value)
{
    if (dtype == MP_DTYPE_DOUBLE)
        ((double *)data)[at] = value;
    else
        mp_store_float(data, dtype, at, (float)value);
}
