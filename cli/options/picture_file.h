/* picture_file.h - the file that a command draws a picture to.
 *
 * Without --format, the extension of the file in -o is the format. With --format, -o may name any file or standard output. The
 * drawing library determines the format by the extension of the file. So with --format the picture is drawn to a temporary file
 * with the right extension, which is then copied to the file of -o. */
#pragma once

#include "cli/options/options.h"
#include "memplan/error.h"

typedef struct picture_file {
    const char *path; /* the file into which the picture is drawn; its extension is the format */
    /* name of the temporary file; "" if the picture is drawn directly to the file of -o. `path` may point to this name, so the
     * struct must not be copied */
    char beside[256];
} picture_file;

/* Determines the file into which a picture is drawn, from -o and --format. `formats` lists the formats of the command, as "svg,
 * png, pdf". Returns EXIT_DONE, or EXIT_USAGE with an error message. */
int picture_file_settle(const options *o, const char *formats, picture_file *out);
/* Like picture_file_settle, but for a command that prints an answer and may also draw a picture. -o is optional. Answer and
 * picture must not both use standard output. */
int picture_file_settle_beside(const options *o, const char *formats, picture_file *out);
/* Creates the temporary file. Must be called when all work except the drawing is done. MP_IO. */
mp_status picture_file_open(picture_file *file, mp_error *err);
/* Removes the temporary file. If `drawn` is MP_OK, copies it to the file of -o before. Returns `drawn`, or MP_IO. */
mp_status picture_file_close(picture_file *file, const output_options *o, mp_status drawn, mp_error *err);
/* True if the picture is written to standard output, so that the answer cannot be printed there. */
bool picture_takes_output(const output_options *o);
