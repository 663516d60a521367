/* nameless.h - files without a name: room on a disk that is gone when they are closed, however the process ends. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "memplan/error.h"

/* Opens one in a folder, for reading and writing; where the file system has none, a file whose name is removed at once.
 * `flags`: more of open's. -1: errno says why. */
int mp_nameless_open(const char *folder, int flags);
/* Makes it as long as this, and takes that room on the disk at once, if the file system can. False: errno says why. */
bool mp_nameless_make_room(int file, int64_t bytes);
/* Maps one of so many bytes, which are 0, into memory: of these the system keeps there what is used and it has room for. All of
 * the disk's room is taken. Unmap it. MP_IO: no file can be made there, or there is no room. */
mp_status mp_nameless_map(const char *folder, int64_t bytes, void **out, mp_error *err);
