/* picture_file.c - a folder of its own for the file beside: nobody else's name is in the way. */
#include "cli/options/picture_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/messages/messages.h"
#include "cli/options/commands.h"
#include "formats/base/file.h"

static const char folder[] = "/tmp/memplan-XXXXXX";

bool picture_takes_output(const options *o)
{
    return o->out && !strcmp(o->out, "-");
}

/* Whether `word` is one of "svg, png, pdf". */
static bool is_among(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ',')) return true;
    return false;
}

int picture_file_settle(const options *o, const char *formats, picture_file *out)
{
    *out = (picture_file){.path = o->out};
    if (!o->format && picture_takes_output(o))
        return usage_error("-o -: standard output has no ending that says the format: --format %.3s (or another of %s)",
                           formats, formats);
    if (!o->format) return EXIT_DONE;
    if (!is_among(formats, o->format))
        return usage_error("--format: %s writes %s, and no %s", commands[o->command].name, formats, o->format);
    snprintf(out->beside, sizeof out->beside, "%s/picture.%s", folder, o->format);
    out->path = out->beside;
    return EXIT_DONE;
}

int picture_file_settle_beside(const options *o, const char *formats, picture_file *out)
{
    if (!o->out && o->format) return usage_error("--format is for a picture, and there is none without -o");
    if (!o->out) return EXIT_DONE;
    if (o->json && picture_takes_output(o)) return usage_error("--json and -o - both want standard output");
    return picture_file_settle(o, formats, out);
}

mp_status picture_file_open(picture_file *file, mp_error *err)
{
    char *end = file->beside + sizeof folder - 1;
    if (!*file->beside) return MP_OK;
    *end = '\0';
    const bool made = mkdtemp(file->beside);
    *end = '/';
    return made ? MP_OK : MP_FAIL(err, MP_IO, "there is no place in /tmp to draw in");
}

mp_status picture_file_close(picture_file *file, const options *o, mp_status drawn, mp_error *err)
{
    mp_file picture = {0};
    if (!*file->beside) return drawn;
    if (drawn == MP_OK) drawn = mp_file_open(file->beside, INT64_MAX, &picture, err);
    if (drawn == MP_OK) drawn = mp_file_write(o->out, picture.bytes, picture.size, err);
    mp_file_close(&picture);
    unlink(file->beside);
    file->beside[sizeof folder - 1] = '\0';
    rmdir(file->beside);
    return drawn;
}
