/* samples.h - how the elements of files are the samples of inputs, decided once when a feed is opened. */
#pragma once

#include "executor/data/feed.h"
#include "formats/data/dataset.h"

typedef enum mp_sample_form {
    MP_SAMPLE_ROWS,  /* a sample is a part of the input: a batch takes several */
    MP_SAMPLE_STACK, /* a sample is all of the input: the file has one dimension more than it */
    MP_SAMPLE_SHARED /* the file is the input, the same in every batch */
} mp_sample_form;

typedef struct mp_sample_file {
    const char *path; /* NULL: nothing is bound to the slot */
    mp_dataset set;
    mp_sample_form form;
} mp_sample_file;

/* How many samples a batch takes: the first dimension of the target where an input has it too, else that of the first input
 * that has several of anything. At least 1. */
int64_t mp_samples_batch(const mp_feed_slot *slots, size_t n_slots);

/* Decides the forms of files that are bound to all slots. *batch, from mp_samples_batch, becomes 1 where a sample is all of an
 * input; *n_samples are those of the files. The rules are those of mp_feed_open. MP_INVALID: shapes that fit no input, or not
 * each other; it names the file. O(slots). */
mp_status mp_samples_settle(const mp_feed_slot *slots, size_t n_slots, mp_sample_file *files, int64_t *batch,
                            int64_t *n_samples, mp_error *err);

/* Whether the numbers of slot b, in order, are those of slot a: it has the same dimensions but for those of 1, or is one list.
 */
bool mp_samples_lie_alike(const mp_feed_slot *a, const mp_feed_slot *b);

/* The elements of an input that one sample gives. */
int64_t mp_sample_elements(const mp_feed_slot *slot, const mp_sample_file *file, int64_t batch);
