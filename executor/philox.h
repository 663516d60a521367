/* philox.h - random numbers that a second run draws again.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a counter and a key
 * into four random words by ten rounds of multiplication; there is no state. Random operators key it by (seed, step, operator)
 * and count elements, so a recomputed dropout draws the very mask it drew before, in any order and on any number of threads.
 */
#ifndef EXECUTOR_PHILOX_H
#define EXECUTOR_PHILOX_H

#include <stdint.h>

typedef struct mp_philox_block {
    uint32_t word[4];
} mp_philox_block;

/* The generator itself: 128 bits of counter, 64 bits of key. */
mp_philox_block mp_philox(mp_philox_block counter, uint32_t key0, uint32_t key1);

/* The random word of one element of one operator in one step: key = seed, counter = (element / 4 as two words, step, op), word
 * element % 4. Every element of every operator of every step has a word of its own. */
uint32_t mp_random_word(uint64_t seed, uint32_t step, uint32_t op, uint64_t element);
/* The same, uniform in [0, 1): the upper 24 bits, so that a float holds every value exactly. */
float mp_random_uniform(uint64_t seed, uint32_t step, uint32_t op, uint64_t element);

/* mp_random_uniform of the elements from .. from + n, faster than one by one. */
void mp_random_uniforms(uint64_t seed, uint32_t step, uint32_t op, uint64_t from, int64_t n, float *out);

#endif
