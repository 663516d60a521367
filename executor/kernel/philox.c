/* philox.c - draws many uniform random numbers at once; each counter gives four of them. */
#include "executor/kernel/philox.h"

enum { LANES = 16 };

/* Computes the random numbers of LANES consecutive counters at once, so that compilers vectorize the rounds. */
static void uniforms_of_counters(uint64_t seed, uint32_t step, uint32_t op, uint64_t counter, float *out)
{
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES], key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int l = 0; l < LANES; l++) {
        a[l] = (uint32_t)(counter + (uint64_t)l);
        b[l] = (uint32_t)((counter + (uint64_t)l) >> 32);
        c[l] = step;
        d[l] = op;
    }
    for (int round = 0; round < MP_PHILOX_ROUNDS; round++) {
        for (int l = 0; l < LANES; l++) {
            uint64_t p0 = (uint64_t)MP_PHILOX_MULTIPLIER_0 * a[l], p1 = (uint64_t)MP_PHILOX_MULTIPLIER_1 * c[l];
            a[l] = (uint32_t)(p1 >> 32) ^ b[l] ^ key0;
            c[l] = (uint32_t)(p0 >> 32) ^ d[l] ^ key1;
            b[l] = (uint32_t)p1;
            d[l] = (uint32_t)p0;
        }
        key0 += MP_PHILOX_WEYL_0;
        key1 += MP_PHILOX_WEYL_1;
    }
    for (int l = 0; l < LANES; l++) {
        out[4 * l] = mp_uniform_of(a[l]);
        out[4 * l + 1] = mp_uniform_of(b[l]);
        out[4 * l + 2] = mp_uniform_of(c[l]);
        out[4 * l + 3] = mp_uniform_of(d[l]);
    }
}

void mp_random_uniforms(uint64_t seed, uint32_t step, uint32_t op, uint64_t from, int64_t n, float *out)
{
    while (n > 0) {
        if (from % 4 == 0 && n >= 4 * LANES) {
            uniforms_of_counters(seed, step, op, from / 4, out);
            from += 4 * LANES;
            out += 4 * LANES;
            n -= 4 * LANES;
        } else {
            *out++ = mp_random_uniform(seed, step, op, from++);
            n--;
        }
    }
}
