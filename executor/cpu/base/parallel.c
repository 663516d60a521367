/* parallel.c - loops over threads through OpenMP, and conversions of blocks. */
#include "executor/cpu/base/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include "executor/kernel/element.h"

int mp_parallel_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/* Below this many elements starting threads costs more than it gives. */
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
