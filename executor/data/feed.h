/* feed.h - batches from files of arrays, a text, or a generator, for slots that the caller describes. See memplan/feed.h.
 *
 * Samples are taken in a new random order every epoch (a Feistel permutation of their numbers: no list of them is kept); a
 * batch at the end of an epoch is filled up from the next one. Files that hold a single batch give it in their order.
 */
#pragma once

#include "estimator/model/model.h"
#include "memplan/feed.h"

/* What a generator puts into an input. */
typedef enum mp_feed_fill {
    MP_FEED_RANDOM,   /* floats uniform in [-1, 1), whole numbers uniform over what is legal (0 and 1 if that is not known) */
    MP_FEED_FIXED,    /* one number everywhere */
    MP_FEED_ASCENDING /* 0, 1, 2 ... along the last dimension, from 0 again where n_values is reached */
} mp_feed_fill;

/* One input of the network. Where its first dimension is the batch (mp_samples_batch), its rows are samples. */
typedef struct mp_feed_slot {
    const char *name;
    mp_dtype dtype; /* FLOAT, INT64, INT32 or BOOL */
    int rank;
    const int64_t *dims;
    int64_t n_values; /* whole numbers: legal are 0 .. n_values - 1; 0: not known */
    bool is_target;   /* of the loss */
    bool ignores;     /* it may also be `ignored`, which the loss does not count */
    int64_t ignored;
    mp_feed_fill fill;
    double fixed; /* with MP_FEED_FIXED */
} mp_feed_slot;

/* Opens the sources for n_slots slots, which are copied. None, or "synthetic": random numbers. "NAME=FILE": an .npy or IDX file
 * for the input NAME; every input needs one. What a file may hold:
 *
 * - samples, each of the shape of a row of the input but for dimensions of 1, or of any if a row is one list of as many
 * numbers. A target may have several rows for each sample ((S, T) and (S*T) for targets of N*T positions). All files of samples
 * have the same number of them.
 * - the input itself, the same in every batch, where its first dimension is 1 or not the batch. If it is another number (the
 *   edges of a graph), no file's rows are samples, and all files are as large as their inputs.
 * - whole inputs, one a batch, along a dimension in front: (G, 50, 16) with (G, 2, 200). Others may be the input itself.
 *
 * "text=FILE": windows of its bytes (or tokens, with "vocabulary=FILE") for the input of whole numbers, and the tokens that
 * follow as target. Release with mp_feed_free (NULL is fine). MP_INVALID: sources that do not fit the slots, a label or token
 * out of range, fewer samples than a batch; the rest as mp_dataset_open. Everything is looked at before the first batch. */
mp_status mp_feed_open(const mp_feed_slot *slots, size_t n_slots, const char *const *sources, size_t n_sources, uint64_t seed,
                       mp_feed **out, mp_error *err);

/* Batch k: fills rows[slot], row-major, for every slot. Allocates nothing. */
void mp_feed_batch(const mp_feed *feed, int64_t k, void *const *rows);
/* Samples of an epoch; 0: there is no end (synthetic). */
int64_t mp_feed_samples(const mp_feed *feed);
int64_t mp_feed_batch_size(const mp_feed *feed);
/* How many batches it takes to see everything about once: whole ones of an epoch; of a text, whose windows overlap, as many as
 * lie side by side; at least one. */
int64_t mp_feed_batches(const mp_feed *feed);
