/* columnar.h - a columnar file as the source of a feed: an input has the column of its name, a rank the rows that it is dealt.
 */
#pragma once

#include "executor/data/deal.h"
#include "executor/data/samples.h"

/* True if a source is a columnar file, by its name: "x.parquet". */
bool mp_columnar_is_file(const char *source);

/* Reads from the file at `path`, which stays valid, the column of each slot that has no file yet; deal->n_samples becomes the
 * rows of all. The shape says all rows, and this rank's are read, hand after hand. A list of as many numbers as a row of the
 * input has its shape. What is read lies in files without names in `folder`, NULL: in memory. MP_UNSUPPORTED: this build has no
 * module for such files; else as mp_columnar_file fails, located in the file, and MP_INVALID where a hand has fewer rows than a
 * batch. O(rows that are read). */
mp_status mp_columnar_read(const char *path, const char *folder, const mp_feed_slot *slots, size_t n_slots, int64_t batch,
                           mp_deal *deal, mp_sample_file *files, mp_error *err);
/* Looks at all numbers that were read of a column for a slot of whole numbers. MP_INVALID: one is out of range; the sentence
 * names row and column. */
mp_status mp_columnar_check(const mp_feed_slot *slot, const mp_sample_file *file, const mp_deal *deal, mp_error *err);
