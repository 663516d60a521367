/* division.h - integer division by a number that is constant during a kernel launch. Replaces the division by a multiplication
 * and a shift.
 *
 * T. Granlund, P. L. Montgomery: "Division by invariant integers using multiplication", PLDI 1994. For d > 1 let s be the
 * smallest number with d <= 2^s, and m = ceil(2^(63 + s) / d) < 2^64. Then n / d = (n m) >> (63 + s) for all n < 2^63. On a
 * GPU, a 64-bit division is a call of about a hundred instructions that also spills registers. */
#pragma once

#include "executor/kernel/element.h"

typedef struct mp_divisor {
    int64_t by;
    uint64_t multiplier; /* the factor by which a dividend is multiplied; 0: the divisor is 1 */
    int shift;           /* number of bits by which the upper 64 bits of the product are shifted right */
} mp_divisor;

/* Prepares the divisor `by` >= 1 for mp_divide, and returns it. */
static inline mp_divisor mp_divisor_of(int64_t by)
{
    mp_divisor d = {by, 0, 0};
    int s = 0;
    if (by <= 1) return d;
    while (s < 63 && (INT64_C(1) << s) < by) s++;
    d.multiplier = (uint64_t)((((unsigned __int128)1 << (63 + s)) + (uint64_t)by - 1) / (uint64_t)by);
    d.shift = s - 1;
    return d;
}

/* Returns n / d, n >= 0. */
MP_INLINE int64_t mp_divide(int64_t n, const mp_divisor *d)
{
    if (!d->multiplier) return n;
#ifdef __CUDA_ARCH__
    return (int64_t)(__umul64hi((uint64_t)n, d->multiplier) >> d->shift);
#else
    return (int64_t)((uint64_t)((unsigned __int128)(uint64_t)n * d->multiplier >> 64) >> d->shift);
#endif
}

/* Returns n / d; *rest is n % d. */
MP_INLINE int64_t mp_divide_rest(int64_t n, const mp_divisor *d, int64_t *rest)
{
    int64_t quotient = mp_divide(n, d);
    *rest = n - quotient * d->by;
    return quotient;
}
