/* bits.c - counts the elements of a bit set, and computes its hash. */
#include "planner/math/bits.h"

#include <xxhash.h>

int mp_bits_count(const uint64_t *set, size_t words)
{
    int n = 0;
    for (size_t w = 0; w < words; w++) n += __builtin_popcountll(set[w]);
    return n;
}

uint64_t mp_bits_hash(const uint64_t *set, size_t words)
{
    return XXH3_64bits(set, words * sizeof *set);
}
