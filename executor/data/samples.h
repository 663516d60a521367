/* samples.h - when a feed of data is opened, decides from the shapes of files and inputs which elements of a file form a
 * sample. */
#pragma once

#include "executor/data/feed.h"
#include "formats/data/dataset.h"

typedef enum mp_sample_form {
    MP_SAMPLE_ROWS,  /* a sample is one or several rows of the input, and a batch has several samples */
    MP_SAMPLE_STACK, /* a sample is a whole input: the file has an extra first dimension */
    MP_SAMPLE_SHARED /* the file contains the input itself, the same in every batch */
} mp_sample_form;

typedef struct mp_sample_file {
    const char *path; /* path of the input's file; NULL: the input has no file */
    mp_dataset set;
    mp_sample_form form;
    bool is_dealt; /* true: the shape counts all samples, but the data are this rank's samples only, one hand (range of samples,
                      deal.h) after the other */
} mp_sample_file;

/* Returns the number of samples per batch. This number is the first dimension of the target, if an input has the same first
 * dimension. Otherwise it is the first dimension larger than 1 among the inputs' first dimensions. At least 1. */
int64_t mp_samples_batch(const mp_feed_slot *slots, size_t n_slots);

/* Decides for the files of all slots which elements form a sample, by the rules of mp_feed_open. *batch, from mp_samples_batch,
 * becomes 1 if a sample is a whole input. *n_samples is the number of samples in the files. MP_INVALID: shapes do not fit an
 * input or each other; the message names the file. O(slots). */
mp_status mp_samples_settle(const mp_feed_slot *slots, size_t n_slots, mp_sample_file *files, int64_t *batch,
                            int64_t *n_samples, mp_error *err);

/* True if a row of input b can hold the numbers of a row of input a in the same order: both have the same dimensions apart
 * from size 1, or a is a single list. */
bool mp_samples_lie_alike(const mp_feed_slot *a, const mp_feed_slot *b);

/* Returns the number of elements of an input per sample. */
int64_t mp_sample_elements(const mp_feed_slot *slot, const mp_sample_file *file, int64_t batch);

/* Fails with MP_INVALID and a message which states that the loss ignores all n labels of a target's file. */
mp_status mp_samples_all_ignored(const mp_feed_slot *slot, int64_t n, mp_error *err);
