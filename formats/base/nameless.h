/* nameless.h - unnamed temporary files: the system frees their disk space when they are closed, even if the process is killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memplan/error.h"

/* Opens an unnamed file in a folder for reading and writing. If the file system has no unnamed files, the file is created
 * with a name that is removed at once. `flags`: additional flags of open. -1: failure, see errno. */
int mp_nameless_open(const char *folder, int flags);
/* Sets the length of a file. If the file system supports it, the disk space is reserved at once. False: failure, see errno. */
bool mp_nameless_make_room(int file, int64_t bytes);
/* Creates an unnamed file of this many zero bytes, reserves its disk space and maps it into memory. The system keeps used
 * pages in memory as long as memory is free. The caller unmaps the file. MP_IO: no file can be created in the folder, or
 * there is no space. */
mp_status mp_nameless_map(const char *folder, int64_t bytes, void **out, mp_error *err);
