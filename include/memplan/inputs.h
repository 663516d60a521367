/* inputs.h - a feed (feed.h) that fits the inputs of a program. */
#pragma once

#include "memplan/feed.h"
#include "memplan/program.h"

/* Opens a feed for the data inputs of a program. No sources, or "synthetic": random numbers that keep what an input means to
 * the network (masks are open, row numbers lie within their table, positions ascend, lengths are full). "NAME=FILE": an .npy
 * or IDX file for the input NAME; every input needs one, all of the same number of samples, or as large as an input that has
 * no batch dimension (docs/training.md, Data). "text=FILE": windows of its bytes (or tokens, with "vocabulary=FILE") and what
 * follows them as target. The targets of a loss over classes have their number as range, tokens that look up a table its rows.
 * On MP_OK release with mp_feed_free. MP_INVALID: sources that do not fit the inputs, a label or token out of range, fewer
 * samples than a batch; MP_PARSE, MP_IO: a file; MP_NOMEM. O(size of the files): everything is looked at. */
mp_status mp_inputs_open_feed(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              mp_feed **out, mp_error *err);
