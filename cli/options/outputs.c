/* outputs.c - the options whose value is a file to write. */
#include "cli/options/outputs.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/messages/messages.h"
#include "formats/base/bytes_text.h"
#include "formats/base/file.h"

/* The file that option k names; NULL: none, or standard output. */
static const char *output_of(const options *o, int k)
{
    const option_row *row = &option_rows[k];
    const char *path = row->is_output && o->given[k] ? *(const char *const *)((const char *)o + row->offset) : NULL;
    return path && strcmp(path, "-") ? path : NULL;
}

int outputs_try(const options *o)
{
    mp_error err = {0};
    for (int k = 0; k < N_OPTIONS; k++) {
        const char *path = output_of(o, k);
        if (path && mp_file_try(path, &err) != MP_OK) return output_failed(&err);
    }
    return EXIT_DONE;
}

void outputs_say(const options *o)
{
    char text[MP_BYTES_TEXT_MAX];
    struct stat info;
    if (o->command == CMD_PLAN || o->quiet || !isatty(STDERR_FILENO)) return; /* plan's answer names its file */
    for (int k = 0; k < N_OPTIONS; k++) {
        const char *path = output_of(o, k);
        if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode))
            complain("wrote %s (%s)", path, mp_bytes_text(info.st_size, text));
    }
}
