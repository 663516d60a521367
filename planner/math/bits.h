/* bits.h - sets of small integers, one bit per integer: integer k is bit k % 64 of word k / 64. The caller owns the array of
 * words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of 64-bit words of a set of integers below n. */
static inline size_t mp_bits_words(size_t n)
{
    return (n + 63) / 64;
}

static inline bool mp_bits_has(const uint64_t *set, int k)
{
    return set[k / 64] >> k % 64 & 1;
}

static inline void mp_bits_add(uint64_t *set, int k)
{
    set[k / 64] |= UINT64_C(1) << k % 64;
}

static inline void mp_bits_remove(uint64_t *set, int k)
{
    set[k / 64] &= ~(UINT64_C(1) << k % 64);
}

static inline void mp_bits_unite(uint64_t *set, const uint64_t *other, size_t words)
{
    for (size_t w = 0; w < words; w++) set[w] |= other[w];
}

/* Removes the lowest bit from a word that is not zero, and returns its number. This loop visits all elements of a set in
 * ascending order:
 *
 *     for (size_t w = 0; w < words; w++)
 *         for (uint64_t left = set[w]; left;) visit((int)w * 64 + mp_bits_take(&left));
 */
static inline int mp_bits_take(uint64_t *word)
{
    const int k = __builtin_ctzll(*word);
    *word &= *word - 1;
    return k;
}

int mp_bits_count(const uint64_t *set, size_t words);
/* Returns a hash of the set: XXH3, 64 bits, the same on every machine of the same byte order. */
uint64_t mp_bits_hash(const uint64_t *set, size_t words);
