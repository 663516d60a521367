/* feed.h - fills batches of the network's inputs from array files, a text, or a generator of synthetic data. The caller
 * describes each input as a slot. See memplan/feed.h.
 *
 * Samples are used in a new random order in every epoch. If an epoch ends within a batch, samples of the next epoch complete
 * the batch (deal.h). If the files contain only one batch, its samples keep the order of the files. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/feed.h"

/* The kind of values that synthetic data has for an input. */
typedef enum mp_feed_fill {
    /* random: floats uniform in [-1, 1); integers uniform in [0, n_values), or in {0, 1} if n_values is unknown */
    MP_FEED_RANDOM,
    MP_FEED_FIXED,    /* every element is `fixed` */
    MP_FEED_ASCENDING /* ascending: 0, 1, 2 ... along the last dimension, modulo n_values */
} mp_feed_fill;

/* One input of the network. If the input's first dimension is the batch (mp_samples_batch), its rows are samples. */
typedef struct mp_feed_slot {
    const char *name;
    mp_dtype dtype; /* element type: FLOAT, INT64, INT32 or BOOL */
    int rank;
    const int64_t *dims;
    int64_t n_values; /* the integers of this input are in [0, n_values); 0: the range is unknown */
    bool is_target;   /* true: this input is the target of the loss */
    bool ignores;     /* true: values equal to `ignored` are valid labels that the loss ignores */
    int64_t ignored;
    mp_feed_fill fill;
    double fixed;      /* the value of all elements, for MP_FEED_FIXED */
    bool is_elsewhere; /* true: only other ranks read this input, so this rank does not fill it */
} mp_feed_slot;

/* Opens the sources for n_slots slots; the slots are copied. Without a source, or with the source "synthetic", inputs are
 * random numbers. "NAME=FILE": an .npy or IDX file for the input NAME; every input needs one. A file may contain:
 *
 *   - samples, each with the shape of a row of the input, apart from dimensions of size 1. If a row is a single list, samples
 *     may have any shape with as many numbers. A target may have several rows for each sample: (S, T) or (S*T) for targets of
 *     N*T positions. All files of samples must have the same number of samples.
 *   - the input itself, the same in every batch, if its first dimension is 1 or is not the batch size. If an input's first
 *     dimension is neither 1 nor the batch size (such as the edges of a graph), no file contains samples. All files then have
 *     the shapes of their inputs.
 *   - whole inputs, one per batch, along an additional first dimension. Example: for the inputs (50, 16) and (2, 200), files of
 *     the shapes (G, 50, 16) and (G, 2, 200) contain G batches. Other files may then contain the input itself.
 *
 * "text=FILE": windows of the file's bytes (or tokens, with "vocabulary=FILE") are the integer input, and the following tokens
 * are the target. Release with mp_feed_free (NULL is allowed). All files are checked before the first batch. MP_INVALID:
 * sources do not fit the slots, a label or token is out of range, all labels are ignored, or there are fewer samples than a
 * batch. Other errors: as mp_dataset_open. */
mp_status mp_feed_open(const mp_feed_slot *slots, size_t n_slots, const char *const *sources, size_t n_sources, uint64_t seed,
                       mp_feed **out, mp_error *err);

/* The part of the data that this rank reads. index: this rank's index among the n ranks that share the data; n_batches:
 * micro-batches per rank and training step. */
typedef struct mp_feed_part {
    int index, n, n_batches;
    const char *folder; /* folder of the unnamed files that store columns; NULL: columns are stored in memory */
} mp_feed_part;
/* As mp_feed_open, for one of several ranks. "FILE.parquet" is also a source. Inputs without another source are read from its
 * columns; this rank reads only its own rows (columnar.h). */
mp_status mp_feed_open_part(const mp_feed_slot *slots, size_t n_slots, const char *const *sources, size_t n_sources,
                            uint64_t seed, const mp_feed_part *part, mp_feed **out, mp_error *err);

enum { MP_FEED_FAULT_TEXT = 400 };

/* Shares the batches among n ranks: each rank gets every n-th batch. Batch k of this feed becomes batch k * n + index of the
 * data. */
void mp_feed_share(mp_feed *feed, int index, int n);
/* Fills rows[] with batch k, row-major. rows[] has an address for each slot without is_elsewhere, in the order of the slots.
 * Allocates nothing. */
void mp_feed_batch(const mp_feed *feed, int64_t k, void *const *rows);
/* Searches batch k for a value that makes the loss infinite or NaN: a number that float32 cannot represent, an infinity
 * outside of a mask, a NaN, or labels that are all ignored. Writes to `text` a sentence that names file and row, counted from
 * 0. Returns false if the batch has no such value. O(batch). */
bool mp_feed_find_fault(const mp_feed *feed, int64_t k, char text[MP_FEED_FAULT_TEXT]);
/* Computes a hash with which ranks detect that they read different data. The hash covers the number of samples, and the first,
 * middle and last batch of an epoch. For columns, only the number of samples is hashed, because each rank reads different rows.
 * MP_NOMEM. O(three batches). */
mp_status mp_feed_digest(const mp_feed *feed, uint64_t *digest, mp_error *err);
/* Returns the number of samples of an epoch; 0: synthetic data, which has no epochs. */
int64_t mp_feed_samples(const mp_feed *feed);
int64_t mp_feed_batch_size(const mp_feed *feed);
/* Returns the number of batches that cover the data about once, at least 1. This is the number of full batches in an epoch.
 * Windows of a text overlap, so a text counts only disjoint windows. */
int64_t mp_feed_batches(const mp_feed *feed);
