/* file.h - reading of files up to a size limit, and atomic writing of files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* A file in memory. The system maps it read-only where possible, so that unread parts of a huge file need no memory. */
typedef struct mp_file {
    const uint8_t *bytes;
    size_t size;
    void *mapping; /* the memory that mp_file_close unmaps or frees */
} mp_file;

/* Opens a regular file of at most limit_bytes; "-" is standard input, if it is a regular file. MP_IO: the file cannot be
 * opened or read, is a directory, ...; MP_PARSE: it is larger than the limit. The message is a sentence without the path;
 * err->input is the path. Close with mp_file_close. */
mp_status mp_file_open(const char *path, int64_t limit_bytes, mp_file *out, mp_error *err);
void mp_file_close(mp_file *file); /* unmaps or frees the contents of a file; a zeroed struct is allowed */

/* True if the path is a folder that the process can examine. */
bool mp_is_folder(const char *path);

/* The name of standard output for error messages. */
#define MP_STANDARD_OUTPUT "standard output"

/* Writes bytes to a temporary file beside `path` and renames it to `path`, so an interrupted write leaves the old file
 * intact. "-" is standard output. MP_IO. */
mp_status mp_file_write(const char *path, const void *bytes, size_t size, mp_error *err);
/* Checks before the data exist that mp_file_write will be able to write to a path: creates the temporary file and removes it
 * again. MP_IO as mp_file_write. */
mp_status mp_file_try(const char *path, mp_error *err);
/* Like mp_file_write, for several pieces of data, which are written in order. */
typedef struct mp_file_part {
    const void *bytes;
    size_t size;
} mp_file_part;
mp_status mp_file_write_parts(const char *path, const mp_file_part *parts, size_t n, mp_error *err);
