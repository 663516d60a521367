/* splitmix.h - splitmix64 pseudo-random numbers (Steele, Lea and Flood 2014). A seed yields the same numbers on every machine.
 *
 * The generator's state is one 64-bit word. The caller owns the word and sets it to the seed at first. Every seed is
 * suitable. */
#pragma once

#include <stdint.h>

#define MP_SPLITMIX_STEP UINT64_C(0x9E3779B97F4A7C15)

/* The output function of the generator, which also serves as a hash of a word. Equal words have equal hashes. Hashes of
 * neighbouring words are unrelated. */
static inline uint64_t mp_splitmix_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static inline uint64_t mp_splitmix_next(uint64_t *state)
{
    return mp_splitmix_mix(*state += MP_SPLITMIX_STEP);
}

/* Returns a random number from a uniform distribution over [0, 1). */
static inline double mp_splitmix_uniform(uint64_t *state)
{
    return (double)(mp_splitmix_next(state) >> 11) * 0x1p-53;
}

/* Returns a random integer in [0, n), n > 0. Its distribution is uniform up to a bias of n / 2^32 (Lemire 2019). */
static inline int mp_splitmix_below(uint64_t *state, int n)
{
    return (int)((mp_splitmix_next(state) >> 32) * (uint64_t)n >> 32);
}
