/* inputs.h - a feed (feed.h) that fits the inputs of a program. */
#ifndef MEMPLAN_INPUTS_H
#define MEMPLAN_INPUTS_H

#include "memplan/feed.h"
#include "memplan/program.h"

/* A feed for the data inputs of a program: `sources` as --data gives them, none: synthetic. The targets of a loss over classes
 * have their number as range, tokens that look up a table its rows. As mp_feed_open. */
mp_status mp_inputs_open_feed(const mp_program *program, const char *const *sources, size_t n_sources, uint64_t seed,
                              mp_feed **out, mp_error *err);

#endif
