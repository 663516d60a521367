/* picture_file.c - creates the temporary file into which a picture is drawn. It is in a folder of its own, so that no other
 * file has its name. */
#include "cli/options/picture_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "formats/base/file.h"

bool picture_takes_output(const output_options *o)
{
    return o->out && !strcmp(o->out, "-");
}

/* True if `word` is an element of a list such as "svg, png, pdf". */
static bool is_among(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ',')) return true;
    return false;
}

int picture_file_settle(const options *o, const char *formats, picture_file *out)
{
    *out = (picture_file){.path = o->output.out};
    if (!o->output.format && picture_takes_output(&o->output))
        return usage_error("-o -: standard output has no file ending; state the format with --format %.3s (or another of %s)",
                           formats, formats);
    if (!o->output.format) return EXIT_DONE;
    if (!is_among(formats, o->output.format))
        return usage_error("--format: %s writes %s, not %s", commands[o->command].name, formats, o->output.format);
    const char *folder = getenv("TMPDIR");
    const int n = snprintf(out->beside, sizeof out->beside, "%s/memplan-XXXXXX/picture.%s", folder && *folder ? folder : "/tmp",
                           o->output.format);
    if (n < 0 || n >= (int)sizeof out->beside) return usage_error("TMPDIR: the name of the folder is too long");
    out->path = out->beside;
    return EXIT_DONE;
}

int picture_file_settle_beside(const options *o, const char *formats, picture_file *out)
{
    if (!o->output.out && o->output.format) return usage_error("--format applies to a picture; name the picture with -o FILE");
    if (!o->output.out) return EXIT_DONE;
    if (o->talk.json && picture_takes_output(&o->output))
        return usage_error("--json and -o - both write to standard output; omit one of them");
    return picture_file_settle(o, formats, out);
}

mp_status picture_file_open(picture_file *file, mp_error *err)
{
    char *end = strrchr(file->beside, '/');
    if (!end) return MP_OK;
    *end = '\0';
    const bool made = mkdtemp(file->beside);
    *end = '/';
    return made ? MP_OK : MP_FAIL(err, MP_IO, "cannot create a temporary file for the picture in TMPDIR or /tmp");
}

mp_status picture_file_close(picture_file *file, const output_options *o, mp_status drawn, mp_error *err)
{
    mp_file picture = {0};
    if (!*file->beside) return drawn;
    if (drawn == MP_OK) drawn = mp_file_open(file->beside, INT64_MAX, &picture, err);
    /* the temporary file is removed before it is copied, because a write to a pipe without a reader ends the program */
    unlink(file->beside);
    *strrchr(file->beside, '/') = '\0';
    rmdir(file->beside);
    if (drawn == MP_OK) drawn = mp_file_write(o->out, picture.bytes, picture.size, err);
    mp_file_close(&picture);
    return drawn;
}
