/* nameless.c - opens unnamed temporary files, reserves their disk space, and maps them. */
#define _GNU_SOURCE
#include "formats/base/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

int mp_nameless_open(const char *folder, int flags)
{
    char path[4096];
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
    if ((size_t)snprintf(path, sizeof path, "%s/memplan-XXXXXX", folder) >= sizeof path) return errno = ENAMETOOLONG, -1;
    file = mkostemp(path, O_CLOEXEC | flags);
    if (file >= 0) unlink(path);
    return file;
}

/* True if the file size limit of the process (ulimit -f) permits this length. A write beyond the limit would raise a signal. */
static bool may_be(int64_t bytes)
{
    struct rlimit most;
    errno = EFBIG;
    return getrlimit(RLIMIT_FSIZE, &most) != 0 || (rlim_t)bytes <= most.rlim_cur;
}

bool mp_nameless_make_room(int file, int64_t bytes)
{
    if (!may_be(bytes)) return false;
    if (fallocate(file, 0, 0, bytes) == 0) return true;
    /* the file system cannot reserve space, so missing disk space is noticed only when pages are written */
    return errno == EOPNOTSUPP && ftruncate(file, bytes) == 0;
}

/* Maps a file into memory. Its disk space is reserved first, because writing to a page without disk space would raise a
 * signal. */
static void *map(int file, int64_t bytes)
{
    if (!may_be(bytes) || (errno = posix_fallocate(file, 0, bytes)) != 0) return MAP_FAILED;
    return mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

mp_status mp_nameless_map(const char *folder, int64_t bytes, void **out, mp_error *err)
{
    const int file = mp_nameless_open(folder, 0);
    MP_ENSURE(file >= 0, err, MP_IO, "cannot create a file in '%s': %s", folder, strerrordesc_np(errno));
    void *mapped = map(file, bytes);
    const int why = errno;
    close(file);
    MP_ENSURE(mapped != MAP_FAILED, err, MP_IO, "there is no room for %lld bytes in '%s': %s", (long long)bytes, folder,
              strerrordesc_np(why));
    *out = mapped;
    return MP_OK;
}
