/* messages.h - sentences on standard error, always as `memplan: [FILE:[LINE:COLUMN:]] sentence`. */
#pragma once

#include "memplan/error.h"

/* Exit statuses. */
enum {
    EXIT_DONE = 0,
    EXIT_NO = 1,            /* the answer is no, or the system failed (disk, memory) */
    EXIT_USAGE = 2,         /* bad usage or bad input */
    EXIT_UNKNOWN = 3,       /* the answer is not known: nothing was found, and nothing is proved */
    EXIT_INTERRUPTED = 130, /* stopped by Ctrl-C before there was an answer */
    EXIT_TERMINATED = 143   /* stopped by SIGTERM before there was an answer */
};

/* Prints a sentence on standard error. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* From here on this is one of many processes that would all say the same: rank 0 says it. Errors every rank says, with its
 * number. */
void messages_as_rank(int rank);
/* Prints a sentence on standard error, and returns EXIT_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print the library's error. Return the exit status for a failure to read the user's input (EXIT_USAGE, but EXIT_NO if
 * memory is short or a plan does not hold), or to produce an answer (EXIT_NO if the system failed). */
int input_failed(const mp_error *err);
int output_failed(const mp_error *err);

/* Flushes standard output. Returns the status, or EXIT_NO with one complaint if any output was lost since the program
 * began. */
int output_end(int status);
