/* inputs.h - a feed (feed.h) that fits the inputs of a program. */
#pragma once

#include "memplan/feed.h"
#include "memplan/program.h"

/* Opens a feed for the data inputs of a program. Without sources, or with "synthetic", it has random numbers that suit what an
 * input means to the network (masks are open, row numbers lie within their table, positions ascend, lengths are full).
 * "NAME=FILE" reads input NAME from an .npy or IDX file; every input then needs a file, with as many samples as the others, or
 * as large as an input without batch dimension (docs/reference/training.md, Data). "text=FILE" has windows of the file's bytes
 * (with "vocabulary=FILE" tokens) as inputs, and what follows each as target. "FILE.parquet" has a column for every input that
 * has no file of its own, if this build has that module (else MP_UNSUPPORTED). On MP_OK release with mp_feed_free. MP_INVALID:
 * sources that do not fit the inputs, a label that is no class, a token that is no row of the table it looks up, fewer samples
 * than a batch; MP_PARSE, MP_IO: a file; MP_NOMEM. O(size of the files): everything is looked at. */
mp_status mp_inputs_open_feed(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              mp_feed **out, mp_error *err);
