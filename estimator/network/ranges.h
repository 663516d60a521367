/* ranges.h - the ranges of elements into which ranks divide a tensor. */
#pragma once

#include <stdint.h>

/* A range of elements of a tensor: the n elements from `from` on, for example a rank's part. */
typedef struct mp_range {
    int64_t from, n;
} mp_range;

/* Returns the number of elements in a rank's part of n elements. Parts at the end may be smaller. */
static inline int64_t mp_rank_part(int64_t n, int64_t ranks)
{
    return n / ranks + (n % ranks != 0);
}
static inline mp_range mp_range_of(int64_t n, int64_t ranks, int64_t rank)
{
    const int64_t part = mp_rank_part(n, ranks), from = part * rank;
    return (mp_range){from, from >= n ? 0 : n - from < part ? n - from : part};
}
