/* picture_file.h - where a picture goes: a name whose ending says the format, or any name, standard output among them, with
 * --format. The library goes by endings, so that in the second case it draws into a file beside, which is then copied.
 */
#pragma once

#include "cli/options/options.h"
#include "memplan/error.h"

typedef struct picture_file {
    const char *path; /* its ending is the format; to draw into once it is open */
    char beside[256]; /* it, in a folder of $TMPDIR, where it is not what -o names; else "". path may point here: not copied */
} picture_file;

/* Finds where to draw for -o, which was given; `formats` are what the command writes: "svg, png, pdf". Returns EXIT_DONE, or
 * EXIT_USAGE with a complaint. */
int picture_file_settle(const options *o, const char *formats, picture_file *out);
/* The same for a picture beside an answer: -o need not ask for it, and not both of them can be on standard output. */
int picture_file_settle_beside(const options *o, const char *formats, picture_file *out);
/* Makes the file beside, once all is there but the picture. MP_IO. */
mp_status picture_file_open(picture_file *file, mp_error *err);
/* Copies what was drawn where -o says, if `drawn` is MP_OK, and takes the file beside away. Returns `drawn`, or MP_IO. */
mp_status picture_file_close(picture_file *file, const output_options *o, mp_status drawn, mp_error *err);
/* True if the picture goes to standard output, which then cannot have an answer. */
bool picture_takes_output(const output_options *o);
