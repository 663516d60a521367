/* data_file.c - the path of a file in $DATA. */
#include "tests/cases/data_file.h"
#include "tests/cases/test.h"

#include <unistd.h>

const char *data_file(const char *name, ...)
{
    static char path[1024];
    const char *folder = getenv("DATA");
    if (!folder || !*folder) {
        print_message(
            "SKIPPED: DATA=FOLDER is not set; docs/internals/data.md says what lies there, from where, and how it is made\n");
        return NULL;
    }
    const int length = snprintf(path, sizeof path, "%s/", folder);
    assert_in_range(length, 1, sizeof path / 2);
    va_list rest;
    va_start(rest, name);
    vsnprintf(path + length, sizeof path - (size_t)length, name, rest);
    va_end(rest);
    if (access(path, R_OK) == 0) return path;
    print_message("SKIPPED: %s is not there; docs/internals/data.md says where it comes from\n", path);
    return NULL;
}
