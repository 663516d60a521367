/* parallel.c - runs loops on OpenMP's threads, and converts blocks of elements. */
#include "executor/cpu/base/parallel.h"

#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

int mp_parallel_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/* Minimum number of elements for several threads. With fewer elements, the start of the threads takes longer than the loop. */
enum { WORTH_THREADS = 1 << 14 };

void mp_parallel(int64_t n, int64_t work, void (*body)(void *data, int64_t k), void *data)
{
    bool threads = n > 1 && (work >= WORTH_THREADS || n >= WORTH_THREADS || n * work >= WORTH_THREADS);
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (threads)
#else
    (void)threads;
#endif
    for (int64_t k = 0; k < n; k++) body(data, k);
}

MP_VECTOR static void widen(const uint16_t *from, int64_t n, float *to)
{
    for (int64_t k = 0; k < n; k++) to[k] = mp_from_bfloat16(from[k]);
}

MP_VECTOR static void narrow(const float *from, int64_t n, uint16_t *to)
{
    for (int64_t k = 0; k < n; k++) to[k] = mp_to_bfloat16(from[k]);
}

const float *mp_floats(const void *data, mp_dtype dtype, int64_t at, int64_t n, float *room)
{
    if (dtype == MP_DTYPE_FLOAT) return (const float *)data + at;
    widen((const uint16_t *)data + at, n, room);
    return room;
}

float *mp_floats_room(void *data, mp_dtype dtype, int64_t at, float *room)
{
    return dtype == MP_DTYPE_FLOAT ? (float *)data + at : room;
}

void mp_floats_done(void *data, mp_dtype dtype, int64_t at, int64_t n, const float *room)
{
    if (dtype != MP_DTYPE_FLOAT) narrow(room, n, (uint16_t *)data + at);
}

void mp_floats_put_apart(void *data, mp_dtype dtype, int64_t at, int64_t stride, int64_t n, const float *values)
{
    if (stride != 1 || (dtype != MP_DTYPE_FLOAT && dtype != MP_DTYPE_BFLOAT16))
        for (int64_t e = 0; e < n; e++) mp_store_float(data, dtype, at + e * stride, values[e]);
    else if (dtype != MP_DTYPE_FLOAT)
        mp_floats_done(data, dtype, at, n, values);
    else if (values != (float *)data + at)
        memcpy((float *)data + at, values, (size_t)n * sizeof *values);
}

MP_VECTOR double mp_floats_sum(const float *from, int64_t n)
{
    float lanes[16] = {0};
    double total = 0;
    int64_t k = 0;
    for (; k + 16 <= n; k += 16)
        for (int l = 0; l < 16; l++) lanes[l] += from[k + l];
    for (; k < n; k++) lanes[k % 16] += from[k];
    for (int l = 0; l < 16; l++) total += (double)lanes[l];
    return total;
}
