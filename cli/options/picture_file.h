/* picture_file.h - the file that a command draws a picture to.
 *
 * -o may name a file whose extension is the format. With --format, -o may name any file or standard output. The drawing
 * library chooses the format by the extension. With --format it therefore draws to a temporary file, which is then copied to
 * the file of -o. */
#pragma once

#include "cli/options/options.h"
#include "memplan/error.h"

typedef struct picture_file {
    const char *path; /* the file to draw into; its extension is the format */
    char beside[256]; /* the temporary file; "" if the picture is drawn to the file of -o. `path` may point here, so do not copy
                         the struct */
} picture_file;

/* Finds the file to draw to, given -o and --format. `formats` lists the formats of the command, as "svg, png, pdf". Returns
 * EXIT_DONE, or EXIT_USAGE with an error message. */
int picture_file_settle(const options *o, const char *formats, picture_file *out);
/* Like picture_file_settle, for a command that prints an answer and may draw a picture. -o is optional. Only the answer or the
 * picture may use standard output. */
int picture_file_settle_beside(const options *o, const char *formats, picture_file *out);
/* Creates the temporary file. Call it when all work except the picture is done. MP_IO. */
mp_status picture_file_open(picture_file *file, mp_error *err);
/* If `drawn` is MP_OK, copies the temporary file to the file of -o. Removes the temporary file. Returns `drawn`, or MP_IO. */
mp_status picture_file_close(picture_file *file, const output_options *o, mp_status drawn, mp_error *err);
/* True if the picture is written to standard output. Then the answer cannot be printed there. */
bool picture_takes_output(const output_options *o);
