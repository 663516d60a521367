/* parallel.h - loops over threads whose results do not depend on how many there are, and element blocks of any float type.
 * Private to executor/cpu/. */
#pragma once

#include "estimator/base/vector.h"
#include "executor/kernel/array.h"
#include "executor/kernel/element.h"

/* Calls body(data, k) for every k in [0, n), each once, on several threads if the whole is worth it: `work` is roughly how many
 * elements one k touches. What a k computes must not depend on other k's. */
void mp_parallel(int64_t n, int64_t work, void (*body)(void *data, int64_t k), void *data);

/* How many threads there are: what results and workspaces may depend on. */
int mp_parallel_threads(void);

/* Loops that run over elements do so in blocks of this many: the same blocks whatever the number of threads. */
enum { MP_BLOCK = 4096 };
/* The number of blocks of n elements, and how many elements block k has. */
static inline int64_t mp_block_count(int64_t n)
{
    return (n + MP_BLOCK - 1) / MP_BLOCK;
}
static inline int64_t mp_block_size(int64_t n, int64_t k)
{
    return n - k * MP_BLOCK < MP_BLOCK ? n - k * MP_BLOCK : MP_BLOCK;
}

/* n floats (n <= MP_BLOCK) from element `at` of memory of this type (FLOAT or BFLOAT16): the memory itself if it holds floats,
 * else converted into `room`. */
const float *mp_floats(const void *data, mp_dtype dtype, int64_t at, int64_t n, float *room);
/* Where to put n floats that belong at element `at`: the memory itself if it holds floats, else `room`; mp_floats_done then
 * converts them (round to nearest even) to where they belong. */
float *mp_floats_room(void *data, mp_dtype dtype, int64_t at, float *room);
void mp_floats_done(void *data, mp_dtype dtype, int64_t at, int64_t n, const float *room);
/* The same for n elements of any type that lie `stride` apart (0: one that repeats): read with mp_floats_apart; and n values
 * written to where they belong, which may be there already. */
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
/* Their sum: sixteen sums side by side, so that the additions can overlap; then one after the other. */
double mp_floats_sum(const float *x, int64_t n);

/* Before a loop: its turns do not depend on each other, even where output and operand are the same memory. */
#ifdef __clang__
#define MP_INDEPENDENT
#else
#define MP_INDEPENDENT _Pragma("GCC ivdep")
#endif
