/* messages.c - prints messages on standard error, and converts errors of the library to exit statuses. */
#include "cli/messages/messages.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/messages/print.h"
#include "formats/base/file.h"

#define PREFIX "memplan: "
enum { SENTENCE_MAX = 8192 };

static int this_rank = -1; /* number of this rank; -1: the training has a single process */
static bool output_lost;   /* true: some output to standard output was lost, and a message about that was printed */

static void speak(const char *format, va_list args)
{
    char line[SENTENCE_MAX] = PREFIX;
    const size_t prefix = sizeof PREFIX - 1;
    print_text(line + prefix, sizeof line - prefix - 1, format, args);
    const size_t n = strlen(line);
    line[n] = '\n';
    (void)fwrite(line, 1, n + 1, stderr); /* one call of fwrite per line, so that the lines of several ranks do not mix */
}

void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (this_rank <= 0) speak(format, args);
    va_end(args);
}

void messages_as_rank(int rank)
{
    this_rank = rank;
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* line buffering, so that the lines of several ranks do not mix */
}

int usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    speak(format, args);
    va_end(args);
    return EXIT_USAGE;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    speak(format, args);
    va_end(args);
}

static void report(const mp_error *err)
{
    const char *input = strcmp(err->input, "-") ? err->input : "standard input";
    if (!strcmp(input, MP_STANDARD_OUTPUT)) output_lost = true;
    const char *text = err->message[0] ? err->message : mp_status_text(err->code);
    char rank[32] = "";
    if (this_rank >= 0) snprintf(rank, sizeof rank, "rank %d: ", this_rank);
    if (!err->input[0])
        say("%s%s", rank, text);
    else if (err->line > 0)
        say("%s%s:%d:%d: %s", rank, input, err->line, err->column, text);
    else
        say("%s%s: %s", rank, input, text);
}

int input_status(mp_status failure)
{
    return failure == MP_NOMEM || failure == MP_REFUTED ? EXIT_NO : EXIT_USAGE;
}

int output_status(mp_status failure)
{
    return failure == MP_IO || failure == MP_INFEASIBLE ? EXIT_NO : input_status(failure);
}

int input_failed(const mp_error *err)
{
    report(err);
    return input_status(err->code);
}

int output_failed(const mp_error *err)
{
    report(err);
    return output_status(err->code);
}

int output_end(int status)
{
    const bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (lost && !output_lost) complain("cannot write to standard output");
    return lost ? EXIT_NO : status;
}
