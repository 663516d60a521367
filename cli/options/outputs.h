/* outputs.h - the files that a command writes: checked before the work, reported afterwards. */
#pragma once

#include "cli/options/options.h"

/* Checks that every output file can be written, so that no long work is lost. Returns EXIT_DONE. With an error message: EXIT_NO
 * if a file cannot be written; EXIT_USAGE if this run reads it, or its name has the extension of another file type. */
int outputs_try(const options *o);
/* Prints "wrote plan.json (93.12 KiB)" on standard error for each file, if that is a terminal and -q was not given. */
void outputs_say(const options *o);
/* Returns the name of a part of an output, as mp_text does: "plan.rank2.json" for "plan.json", "rank" and 2. */
const char *output_part(const char *name, const char *part, int number);
