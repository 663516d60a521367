/* inputs.h - opens a feed (feed.h) for the inputs of a program. */
#pragma once

#include "memplan/feed.h"
#include "memplan/program.h"

/* Opens a feed for the data inputs of a program. On MP_OK release with mp_feed_free. The sources:
 *
 * - None, or "synthetic": random values that are valid for each input: masks are open, row indices are within their table,
 *   positions ascend, lengths are full.
 * - "NAME=FILE": input NAME is read from an .npy or IDX file. Every input then needs a file with the same number of samples.
 *   The file of an input without batch dimension has the size of the input (docs/reference/training.md, Data).
 * - "text=FILE": inputs are windows of the file's bytes, or of tokens with "vocabulary=FILE". The target is the next byte or
 *   token.
 * - "FILE.parquet": has a column for every input without a file of its own. MP_UNSUPPORTED: this build lacks the Parquet
 *   module.
 *
 * MP_INVALID: sources that do not fit the inputs, a label outside the classes, a token outside its lookup table, or fewer
 * samples than a batch. MP_PARSE, MP_IO: a file. MP_NOMEM. O(size of the files), because every value is checked. */
mp_status mp_inputs_open_feed(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              mp_feed **out, mp_error *err);
