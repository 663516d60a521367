/* picture_file.h - where a picture is written: to a file whose ending is the format, or to any file, or standard
 * output, with --format. The library chooses the format by ending, so in the second case it draws into a temporary
 * file, which is then copied. */
#pragma once

#include "cli/options/options.h"
#include "memplan/error.h"

typedef struct picture_file {
    const char *path; /* the file to draw into once it is open; its ending is the format */
    char beside[256]; /* the temporary file, if -o does not name the file itself; else "". path may point here: do not copy the
                         struct */
} picture_file;

/* Finds the file to draw into for a given -o; `formats` are those of the command: "svg, png, pdf". Returns EXIT_DONE,
 * or EXIT_USAGE with a complaint. */
int picture_file_settle(const options *o, const char *formats, picture_file *out);
/* As picture_file_settle, for a picture besides an answer: -o is optional, and only one of both goes to standard output. */
int picture_file_settle_beside(const options *o, const char *formats, picture_file *out);
/* Creates the temporary file, once everything but the picture is done. MP_IO. */
mp_status picture_file_open(picture_file *file, mp_error *err);
/* Copies the picture to the file of -o, if `drawn` is MP_OK, and removes the temporary file. Returns `drawn`, or MP_IO. */
mp_status picture_file_close(picture_file *file, const output_options *o, mp_status drawn, mp_error *err);
/* True if the picture goes to standard output, where then no answer can go. */
bool picture_takes_output(const output_options *o);
