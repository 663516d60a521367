/* messages.h - messages on standard error, always of the form `memplan: [FILE:[LINE:COLUMN:]] sentence`. */
#pragma once

#include "memplan/error.h"

/* Exit statuses. */
enum {
    EXIT_DONE = 0,
    EXIT_NO = 1,            /* the answer is "no" (no plan, a claim does not hold), or the system failed (disk, memory) */
    EXIT_USAGE = 2,         /* invalid usage or invalid input */
    EXIT_UNKNOWN = 3,       /* no answer: nothing was found, and nothing is proved */
    EXIT_INTERRUPTED = 130, /* stopped by Ctrl-C before there was an answer */
    EXIT_TERMINATED = 143   /* stopped by SIGTERM before there was an answer */
};

/* Prints a message on standard error. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Declares this process to be the rank with this number. Messages that all ranks would print are then printed by rank 0 only.
 * Errors are printed by every rank, with its number. */
void messages_as_rank(int rank);
/* Prints a message on standard error, and returns EXIT_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print an error of the library and return the exit status. input_failed is for errors in reading the user's input. It returns
 * EXIT_USAGE, but EXIT_NO if memory ran out or a plan is not valid. output_failed is for errors in producing an answer. It
 * returns EXIT_NO if the system failed. */
int input_failed(const mp_error *err);
int output_failed(const mp_error *err);
/* Return the exit status of the two functions above without printing. */
int input_status(mp_status failure);
int output_status(mp_status failure);

/* Flushes standard output. Returns the status; EXIT_NO with one message if any output of the program was lost. */
int output_end(int status);
