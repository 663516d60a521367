/* deal.c - computes the random order of the samples in each epoch. A hand is a range of samples that one rank reads (deal.h).
 */
#include "executor/data/deal.h"

#include "executor/kernel/philox.h"

/* Permutes [0, n) by four rounds of a Feistel network over 2 * half bits. Results outside of [0, n) are permuted again
 * (cycle walking). */
static int64_t permuted(uint64_t seed, uint64_t epoch, int64_t n, int64_t k)
{
    int half = 1;
    while (half < 31 && (INT64_C(1) << 2 * half) < n) half++;
    uint32_t mask = (uint32_t)((UINT64_C(1) << half) - 1);
    do {
        uint32_t left = (uint32_t)(k >> half) & mask, right = (uint32_t)k & mask;
        for (uint32_t round = 0; round < 4; round++) {
            mp_philox_block c = {{right, round, (uint32_t)epoch, (uint32_t)(epoch >> 32)}};
            uint32_t next = left ^ (mp_philox(c, (uint32_t)seed, (uint32_t)(seed >> 32)).word[0] & mask);
            left = right;
            right = next;
        }
        k = (int64_t)left << half | right;
    } while (k >= n);
    return k;
}

/* Returns n * part / of without overflow: the product n * part may exceed int64_t. */
static int64_t fraction(int64_t n, int64_t part, int64_t of)
{
    return n / of * part + n % of * part / of;
}

mp_range mp_deal_hand(const mp_deal *d, int hand)
{
    const int64_t from = fraction(d->n_samples, hand, d->n_hands);
    return (mp_range){from, fraction(d->n_samples, hand + 1, d->n_hands) - from};
}

/* If a hand (a range of samples that one rank reads) has only one batch, its samples keep the order of the file. Neighbouring
 * rows may then belong together, such as the nodes of a graph. */
int64_t mp_deal_sample(const mp_deal *d, uint64_t seed, int64_t batch, int64_t batch_size, int64_t row)
{
    const int64_t hand = batch % d->n_hands, position = batch / d->n_hands * batch_size + row;
    const mp_range has = mp_deal_hand(d, (int)hand);
    if (has.n == batch_size) return has.from + position % has.n;
    const uint64_t epoch = (uint64_t)(position / has.n) + ((uint64_t)hand << 32);
    return has.from + permuted(seed, epoch, has.n, position % has.n);
}

int64_t mp_deal_position(const mp_deal *d, int64_t sample)
{
    int64_t before = 0;
    for (int hand = mp_deal_first(d); hand < d->n_hands; hand += d->sharers) {
        const mp_range has = mp_deal_hand(d, hand);
        if (sample >= has.from && sample < has.from + has.n) return before + sample - has.from;
        before += has.n;
    }
    return -1;
}
