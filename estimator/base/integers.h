/* integers.h - exact arithmetic on integers: maximum, minimum, greatest common divisor, and percentages without overflow. */
#pragma once

#include <stdint.h>

static inline int64_t mp_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t mp_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the greatest common divisor of two numbers >= 0. If one of them is 0, returns the other number. O(log a). */
static inline int64_t mp_gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static inline int64_t mp_percent(int64_t number, int percent)
{
    return number / 100 * percent + number % 100 * percent / 100;
}
