/* philox.h - counter-based random numbers, so that the recomputation of a random operator draws the same numbers again.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a counter and a key
 * into four random words by ten rounds of multiplication. The generator has no state. Random operators key it by (seed, step,
 * operator) and count elements, so a recomputed dropout draws the same mask as before, in any order and on any number of
 * threads. */
#pragma once

#include <stdint.h>

#include "executor/kernel/element.h"

typedef struct mp_philox_block {
    uint32_t word[4];
} mp_philox_block;

/* The constants of section 4.3 of the Philox paper (Salmon et al. 2011): two odd multipliers, and the Weyl increments from the
 * golden ratio and sqrt(3)
 * - 1. */
#define MP_PHILOX_MULTIPLIER_0 0xD2511F53u
#define MP_PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define MP_PHILOX_WEYL_0 0x9E3779B9u
#define MP_PHILOX_WEYL_1 0xBB67AE85u
enum { MP_PHILOX_ROUNDS = 10 };

/* Philox4x32-10: returns four random words for a counter of 128 bits and a key of 64 bits. */
MP_INLINE mp_philox_block mp_philox(mp_philox_block c, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < MP_PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)MP_PHILOX_MULTIPLIER_0 * c.word[0], p1 = (uint64_t)MP_PHILOX_MULTIPLIER_1 * c.word[2];
        c.word[0] = (uint32_t)(p1 >> 32) ^ c.word[1] ^ key0;
        c.word[1] = (uint32_t)p1;
        c.word[2] = (uint32_t)(p0 >> 32) ^ c.word[3] ^ key1;
        c.word[3] = (uint32_t)p0;
        key0 += MP_PHILOX_WEYL_0;
        key1 += MP_PHILOX_WEYL_1;
    }
    return c;
}

/* Returns the random words of elements [4 quad, 4 quad + 4) of one operator in one step: key = seed, counter = (quad as two
 * words, step, op). Every element of every operator and step has its own word. */
MP_INLINE mp_philox_block mp_random_quad(uint64_t seed, uint32_t step, uint32_t op, uint64_t quad)
{
    mp_philox_block counter = {{(uint32_t)quad, (uint32_t)(quad >> 32), step, op}};
    return mp_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}
MP_INLINE uint32_t mp_random_word(uint64_t seed, uint32_t step, uint32_t op, uint64_t element)
{
    return mp_random_quad(seed, step, op, element >> 2).word[element & 3];
}

/* Returns a seed for a library that draws random numbers itself. The seed consists of two random words that no element of the
 * operator uses. */
MP_INLINE int64_t mp_random_seed(uint64_t seed, uint32_t step, uint32_t op)
{
    const mp_philox_block block = mp_random_quad(seed, step, op, UINT64_MAX);
    return (int64_t)((uint64_t)block.word[1] << 32 | block.word[0]);
}

/* Converts a word to a uniform number in [0, 1). Only the upper 24 bits are used, because a float holds 24 bits exactly. */
MP_INLINE float mp_uniform_of(uint32_t word)
{
    return (float)(word >> 8) * 5.9604644775390625e-8f; /* 2^-24 */
}
MP_INLINE float mp_random_uniform(uint64_t seed, uint32_t step, uint32_t op, uint64_t element)
{
    return mp_uniform_of(mp_random_word(seed, step, op, element));
}

/* Writes the values of mp_random_uniform for n elements from `from` on; faster than n single calls. */
void mp_random_uniforms(uint64_t seed, uint32_t step, uint32_t op, uint64_t from, int64_t n, float *out);
