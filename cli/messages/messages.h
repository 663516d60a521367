/* messages.h - messages on standard error, always of the form `memplan: [FILE:[LINE:COLUMN:]] sentence`. */
#pragma once

#include "memplan/error.h"

/* Exit statuses. */
enum {
    EXIT_DONE = 0,
    EXIT_NO = 1,            /* the answer is "no" (no plan exists, or a claim is false), or the system failed (disk, memory) */
    EXIT_USAGE = 2,         /* invalid usage or invalid input */
    EXIT_UNKNOWN = 3,       /* there is no answer: the command found nothing and proved nothing */
    EXIT_INTERRUPTED = 130, /* Ctrl-C stopped the command before it had an answer */
    EXIT_TERMINATED = 143   /* SIGTERM stopped the command before it had an answer */
};

/* Prints a message on standard error. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Tells the message functions that this process is the rank with this number. From then on, a message that all ranks would
 * print is printed by rank 0 only. Errors are printed by every rank, with its number. */
void messages_as_rank(int rank);
/* Prints a message on standard error, and returns EXIT_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print an error of the library and return the exit status. input_failed is for errors while the user's input is read: it
 * returns EXIT_NO if memory ran out or a plan is not valid, otherwise EXIT_USAGE. output_failed is for errors while an answer
 * is computed or written: it returns EXIT_NO if the system failed. */
int input_failed(const mp_error *err);
int output_failed(const mp_error *err);
/* Return the exit status that input_failed or output_failed would return, without printing. */
int input_status(mp_status failure);
int output_status(mp_status failure);

/* Flushes standard output and returns the exit status: `status`, or EXIT_NO with one message if any output of the program was
 * lost. */
int output_end(int status);
