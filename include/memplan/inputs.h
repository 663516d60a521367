/* inputs.h - opens a feed (feed.h) for the inputs of a program. */
#pragma once

#include "memplan/feed.h"
#include "memplan/program.h"

/* Opens a feed that supplies the data inputs of a program. On MP_OK release *out with mp_feed_free. The sources:
 *
 * - None, or "synthetic": random values that are valid for each input: masks hide nothing, indices are within the lookup table,
 *   positions ascend, sequences have full length.
 * - "NAME=FILE": input NAME is read from an .npy or IDX file. Every input then needs a file with the same number of samples.
 *   The file of an input without batch dimension has the size of the input (docs/reference/training.md, Data).
 * - "text=FILE": inputs are windows of the file's bytes, or of tokens with "vocabulary=FILE". The target is the next byte or
 *   token.
 * - "FILE.parquet": supplies a column for every input without a file of its own. MP_UNSUPPORTED: this build lacks the Parquet
 *   module.
 *
 * MP_INVALID: the sources do not match the inputs, a label exceeds the number of classes, a token exceeds the lookup table,
 * or there are fewer samples than one batch has. MP_PARSE, MP_IO: a file is malformed or cannot be read. MP_NOMEM. O(size of
 * the files), because every value is checked. */
mp_status mp_inputs_open_feed(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              mp_feed **out, mp_error *err);
