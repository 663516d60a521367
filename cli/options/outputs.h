/* outputs.h - the files that a command writes: tried before the work, named when it is done. */
#pragma once

#include "cli/options/options.h"

/* Whether every file that the options name could be written, so that no long work ends without a place for its answer, and none
 * is a file that this run reads, or has the name of another kind of file. EXIT_DONE, or with a complaint EXIT_NO; EXIT_USAGE
 * for the latter two. */
int outputs_try(const options *o);
/* "wrote plan.json (93.12 KiB)" on standard error for each of them, where that is a terminal and -q was not given. */
void outputs_say(const options *o);
