/* feed.h - fills batches for slots that the caller describes, from files of arrays, a text, or a generator. See memplan/feed.h.
 *
 * Samples are taken in a new random order every epoch; a batch at the end of an epoch is filled up from the next one (deal.h).
 * Files that hold a single batch keep their order. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/feed.h"

/* How a generator fills an input. */
typedef enum mp_feed_fill {
    MP_FEED_RANDOM,   /* floats uniform in [-1, 1); whole numbers uniform in [0, n_values) (0 and 1 if that is not known) */
    MP_FEED_FIXED,    /* every element is `fixed` */
    MP_FEED_ASCENDING /* 0, 1, 2 ... along the last dimension, modulo n_values */
} mp_feed_fill;

/* One input of the network. If its first dimension is the batch (mp_samples_batch), its rows are samples. */
typedef struct mp_feed_slot {
    const char *name;
    mp_dtype dtype; /* FLOAT, INT64, INT32 or BOOL */
    int rank;
    const int64_t *dims;
    int64_t n_values; /* whole numbers are in [0, n_values); 0: not known */
    bool is_target;   /* true: the target of the loss */
    bool ignores;     /* true: values may be `ignored`, which the loss leaves out */
    int64_t ignored;
    mp_feed_fill fill;
    double fixed;      /* the value of MP_FEED_FIXED */
    bool is_elsewhere; /* true: another process reads it, and it is not filled */
} mp_feed_slot;

/* Opens the sources for n_slots slots, which are copied. No source, or "synthetic": random numbers. "NAME=FILE": an .npy or IDX
 * file for the input NAME; every input needs one. What a file may hold:
 *
 * - samples, each with the shape of a row of the input up to dimensions of 1; or with any shape, if a row is one list of as
 * many numbers. A target may have several rows for each sample ((S, T) and (S*T) for targets of N*T positions). All files of
 * samples have the same number of them.
 * - the input itself, the same in every batch, if its first dimension is 1 or not the batch. If it is another number (the edges
 * of a graph), no file's rows are samples, and all files are as large as their inputs.
 * - whole inputs, one per batch, along an extra first dimension: (G, 50, 16) with (G, 2, 200). Other files may then be the
 * input itself.
 *
 * "text=FILE": windows of its bytes (or tokens, with "vocabulary=FILE") for the input of whole numbers, and the tokens that
 * follow as target. Release with mp_feed_free (NULL is fine). MP_INVALID: sources do not fit the slots, a label or token is
 * out of range, all labels are ignored, or there are fewer samples than a batch; other failures are those of mp_dataset_open.
 * All files are checked before the first batch. */
mp_status mp_feed_open(const mp_feed_slot *slots, size_t n_slots, const char *const *sources, size_t n_sources, uint64_t seed,
                       mp_feed **out, mp_error *err);

/* Of those that share the data, which one this is, and how many micro-batches of a step each has. */
typedef struct mp_feed_part {
    int index, n, n_batches;
    const char *folder; /* where columns lie that are read, in files without names; NULL: in memory */
} mp_feed_part;
/* As mp_feed_open, for one of several. "FILE.parquet" is a source, too: inputs without a file of their own are its columns, of
 * which this rank's rows are read (columnar.h). */
mp_status mp_feed_open_part(const mp_feed_slot *slots, size_t n_slots, const char *const *sources, size_t n_sources,
                            uint64_t seed, const mp_feed_part *part, mp_feed **out, mp_error *err);

enum { MP_FEED_FAULT_TEXT = 400 };

/* Makes batch k number k * n + index of all: of n that share the data, each gets every n-th. */
void mp_feed_share(mp_feed *feed, int index, int n);
/* Fills rows[] of every slot that is not elsewhere with batch k, row-major, in the order of these slots. Allocates nothing. */
void mp_feed_batch(const mp_feed *feed, int64_t k, void *const *rows);
/* Looks for a value in batch k that makes the loss infinite or NaN: a number of a file that float32 cannot hold, an infinity
 * outside of a mask, a NaN, or labels that are all ignored. Writes a sentence that names file and row, counted from 0; false:
 * there is none. O(batch). */
bool mp_feed_find_fault(const mp_feed *feed, int64_t k, char text[MP_FEED_FAULT_TEXT]);
/* Computes a number that differs where other data are seen: of how many samples there are, and of what is in the first, the
 * middle and the last batch of an epoch. Of columns, of which ranks read different rows, only how many there are. MP_NOMEM.
 * O(three batches). */
mp_status mp_feed_digest(const mp_feed *feed, uint64_t *digest, mp_error *err);
/* Returns the samples of an epoch; 0: synthetic data, which does not end. */
int64_t mp_feed_samples(const mp_feed *feed);
int64_t mp_feed_batch_size(const mp_feed *feed);
/* Returns the batches that see all data about once: the full batches of an epoch; for a text, whose windows overlap, the
 * number of disjoint ones; at least one. */
int64_t mp_feed_batches(const mp_feed *feed);
