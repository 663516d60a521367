/* deal.h - which samples a batch has: an order that is new in every epoch, and the same whoever asks for it.
 *
 * The order is a permutation of the samples' numbers (a Feistel network: no list of them is kept). A batch at the end of an
 * epoch is filled up from the next one.
 *
 * Samples that are expensive to reach are dealt first, to `n_hands` hands: equal parts of neighbours, of which the first ones
 * have a sample less where they are not equal. Batch j is of hand j mod n_hands, and each hand has epochs and orders of its
 * own. Of S ranks with K micro-batches in a step each there are S K hands, and rank r has those numbered r, r + S, ... So a
 * rank reads its own part only, each sample is of one rank, and S ranks see what one process sees that accumulates S K
 * micro-batches.
 *
 * Ten samples, two ranks, two micro-batches each: hands of 0-1, 2-4, 5-6, 7-9. Rank 1 has 2-4 and 7-9, and its second batch,
 * number 3 of all, is of the latter. */
#pragma once

#include "executor/ranks/communicator.h"

typedef struct mp_deal {
    int64_t n_samples;
    int index, sharers; /* of those that share the samples, which one this is */
    int n_hands;        /* a multiple of `sharers`, or 1: every batch is of all samples */
} mp_deal;

/* Returns this rank's first hand. */
static inline int mp_deal_first(const mp_deal *deal)
{
    return deal->index % deal->n_hands;
}
mp_range mp_deal_hand(const mp_deal *deal, int hand);
/* Returns the sample in a row of a batch of so many; `batch` is its number among those of all ranks. */
int64_t mp_deal_sample(const mp_deal *deal, uint64_t seed, int64_t batch, int64_t batch_size, int64_t row);
/* Returns where one of this rank's samples stands among them, hand after hand. */
int64_t mp_deal_place(const mp_deal *deal, int64_t sample);
