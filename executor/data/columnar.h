/* columnar.h - a columnar file (Parquet) as a data source. Each input of the network reads the column with its name. Each rank
 * reads only its own rows. */
#pragma once

#include "executor/data/deal.h"
#include "executor/data/samples.h"

/* True if a source is a columnar file, by its name: "x.parquet". */
bool mp_columnar_is_file(const char *source);

/* Reads a column for each input (slot) that has no other source file; the column has the input's name. `path` must stay valid.
 * deal->n_samples becomes the number of rows of the file. Each file in `files` states the number of rows of all ranks, but
 * stores only the rows of this rank. They are sorted by their hands: a hand is a range of samples that one rank reads (deal.h).
 * If a row is a list with as many numbers as a row of the input, the row gets the input's shape. The data are stored in unnamed
 * files in `folder`, NULL: in memory. MP_UNSUPPORTED: this build has no module for columnar files; MP_INVALID: a hand has fewer
 * rows than a batch; other errors as mp_columnar_file. O(rows read). */
mp_status mp_columnar_read(const char *path, const char *folder, const mp_feed_slot *slots, size_t n_slots, int64_t batch,
                           mp_deal *deal, mp_sample_file *files, mp_error *err);
/* Checks all values that were read from a column for an input of integers. MP_INVALID: a value is out of range; the message
 * names row and column. */
mp_status mp_columnar_check(const mp_feed_slot *slot, const mp_sample_file *file, const mp_deal *deal, mp_error *err);
