/* deal.h - the samples of each batch: a new order in every epoch, and this order is the same on every rank.
 *
 * The order is a permutation of the sample numbers, computed by a Feistel network without a list. If an epoch ends within a
 * batch, samples of the next epoch complete the batch.
 *
 * Samples that are expensive to read (columns of a file) are first split into `n_hands` hands, as in a card game: ranges of
 * neighbouring samples of nearly equal size. Batch j uses hand j mod n_hands, and each hand has its own epochs and orders. S
 * ranks with K micro-batches each per step use S * K hands in total. Rank r owns the hands r, r + S, ... Each rank therefore
 * reads only its own samples, and each sample belongs to one rank. S ranks see the same batches as one process that
 * accumulates S * K micro-batches.
 *
 * Example: ten samples, two ranks, two micro-batches each. The hands are 0-1, 2-4, 5-6 and 7-9. Rank 1 owns 2-4 and 7-9. The
 * second batch of rank 1 is batch 3 in the numbering over all ranks, and uses the samples 7-9. */
#pragma once

#include "executor/ranks/communicator.h"

typedef struct mp_deal {
    int64_t n_samples;
    int index, sharers; /* sharers: number of ranks that share the samples; index: index of this rank among them */
    int n_hands;        /* number of hands. 1: every batch draws from all samples; otherwise a multiple of `sharers` */
} mp_deal;

/* Returns the number of this rank's first hand, a range of samples. */
static inline int mp_deal_first(const mp_deal *deal)
{
    return deal->index % deal->n_hands;
}
mp_range mp_deal_hand(const mp_deal *deal, int hand);
/* Returns the sample in row `row` of a batch with batch_size rows; `batch` counts the batches of all ranks. */
int64_t mp_deal_sample(const mp_deal *deal, uint64_t seed, int64_t batch, int64_t batch_size, int64_t row);
/* Returns the position of a sample in this rank's data, which contain the samples of its hands one after the other. */
int64_t mp_deal_position(const mp_deal *deal, int64_t sample);
