/* picture_file.h - the file that a picture is drawn into. -o names a file with the format as its extension, or with --format
 * any file or standard output. The library chooses the format by the extension. In the second case it therefore draws into a
 * temporary file, which is copied afterwards. */
#pragma once

#include "cli/options/options.h"
#include "memplan/error.h"

typedef struct picture_file {
    const char *path; /* the file to draw into; its extension is the format */
    char beside[256]; /* the temporary file; "" if -o names the file itself. `path` may point here: do not copy the struct */
} picture_file;

/* Finds the file to draw into, given -o. `formats`: the formats of the command: "svg, png, pdf". Returns EXIT_DONE, or
 * EXIT_USAGE with an error message. */
int picture_file_settle(const options *o, const char *formats, picture_file *out);
/* As picture_file_settle, for a picture in addition to an answer: -o is optional, and only one of the two may use standard
 * output. */
int picture_file_settle_beside(const options *o, const char *formats, picture_file *out);
/* Creates the temporary file. Called when everything except the picture is done. MP_IO. */
mp_status picture_file_open(picture_file *file, mp_error *err);
/* If `drawn` is MP_OK, copies the picture to the file of -o. Removes the temporary file. Returns `drawn`, or MP_IO. */
mp_status picture_file_close(picture_file *file, const output_options *o, mp_status drawn, mp_error *err);
/* True if the picture is written to standard output, so that no answer can be. */
bool picture_takes_output(const output_options *o);
