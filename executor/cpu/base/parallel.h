/* parallel.h - parallel loops whose results do not depend on the number of threads, and access to blocks of elements of FLOAT
 * or BFLOAT16 arrays as floats. Private to executor/cpu/. */
#pragma once

#include "estimator/base/vector.h"
#include "executor/kernel/array.h"
#include "executor/kernel/element.h"

/* Calls body(data, k) once for every k in [0, n), on several threads if there is enough work. `work` is the approximate number
 * of elements that body reads or writes for one k. The results for one k must not depend on another k. */
void mp_parallel(int64_t n, int64_t work, void (*body)(void *data, int64_t k), void *data);

/* Returns the number of threads. The size of a workspace may depend on this number, results must not. */
int mp_parallel_threads(void);

/* Number of elements per block in loops over elements. It does not depend on the number of threads. */
enum { MP_BLOCK = 4096 };
/* mp_block_count returns the number of blocks for n elements. mp_block_size returns the number of elements in block k. */
static inline int64_t mp_block_count(int64_t n)
{
    return (n + MP_BLOCK - 1) / MP_BLOCK;
}
static inline int64_t mp_block_size(int64_t n, int64_t k)
{
    return n - k * MP_BLOCK < MP_BLOCK ? n - k * MP_BLOCK : MP_BLOCK;
}

/* Returns n floats (n <= MP_BLOCK) from element `at` of an array (FLOAT or BFLOAT16): a pointer into a FLOAT array, else a
 * converted copy in `room`. */
const float *mp_floats(const void *data, mp_dtype dtype, int64_t at, int64_t n, float *room);
/* Returns the buffer into which a kernel writes the floats for the elements from `at` on: the array's own memory if it holds
 * floats, else `room`. mp_floats_done then converts the floats in `room` (round to nearest even). */
float *mp_floats_room(void *data, mp_dtype dtype, int64_t at, float *room);
void mp_floats_done(void *data, mp_dtype dtype, int64_t at, int64_t n, const float *room);
/* As mp_floats and mp_floats_done, for n elements of any type with a stride (0: one element repeated). mp_floats_put_apart also
 * accepts values that are already in their array. */
static inline const float *mp_floats_apart(const void *data, mp_dtype dtype, int64_t at, int64_t stride, int64_t n, float *room)
{
    if (stride == 1 && (dtype == MP_DTYPE_FLOAT || dtype == MP_DTYPE_BFLOAT16)) return mp_floats(data, dtype, at, n, room);
    if (stride == 0) {
        float value = mp_load_float(data, dtype, at);
        for (int64_t e = 0; e < n; e++) room[e] = value;
    } else if (dtype == MP_DTYPE_FLOAT) {
        const float *from = (const float *)data + at;
        for (int64_t e = 0; e < n; e++) room[e] = from[e * stride];
    } else {
        for (int64_t e = 0; e < n; e++) room[e] = mp_load_float(data, dtype, at + e * stride);
    }
    return room;
}
void mp_floats_put_apart(void *data, mp_dtype dtype, int64_t at, int64_t stride, int64_t n, const float *values);
/* Returns the sum of n floats in a fixed order: 16 partial sums, so that the additions overlap, then the sum of the 16. */
double mp_floats_sum(const float *x, int64_t n);

/* Placed before a loop: tells the compiler that iterations are independent, even if an output shares its memory with an
 * operand. */
#ifdef __clang__
#define MP_INDEPENDENT
#else
#define MP_INDEPENDENT _Pragma("GCC ivdep")
#endif
