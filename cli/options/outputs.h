/* outputs.h - the files that a command writes: checks them before the work, and reports their sizes afterwards. */
#pragma once

#include "cli/options/options.h"

/* Checks that every output file can be written, so that no long work is lost. Returns EXIT_DONE. On failure prints an error
 * message and returns EXIT_NO or EXIT_USAGE. EXIT_NO: a file cannot be written. EXIT_USAGE: this run reads the file, or its
 * name has the extension of another file type. */
int outputs_try(const options *o);
/* Prints "wrote plan.json (93.12 KiB)" on standard error for each output file, if standard error is a terminal and -q was not
 * given. */
void outputs_say(const options *o);
/* Returns the name of a file with one part of an output, allocated by mp_text: "plan.rank2.json" for "plan.json", "rank" and
 * 2. */
const char *output_part(const char *name, const char *part, int number);
