/* file.c - bounded reading and atomic writing.
 *
 * Reading maps the file, so that the weights of a huge model, which nobody looks at, are never loaded. Writing goes to a new
 * file beside the old one, which takes its name once everything is on the disk: a full disk or a crash leaves the old file
 * whole.
 */
#include "formats/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "estimator/base/memory.h"

enum {
    READ_AHEAD_BYTES = 64 << 20, /* files over this are read here and there: reading ahead would load what is skipped */
    TEMPORARY_TRIES = 100
};

static mp_status system_failure(mp_error *err, const char *what)
{
    char text[128];
    const char *reason = strerror_r(errno, text, sizeof text) == 0 ? text : "unknown reason";
    return MP_FAIL(err, MP_IO, "%s: %s", what, reason);
}

mp_status mp_file_open(const char *path, int64_t limit_bytes, mp_file *out, mp_error *err)
{
    mp_status st = MP_OK;
    struct stat info;
    mp_file file = {.bytes = (const uint8_t *)""};
    const bool is_input = !strcmp(path, "-");
    /* Not blocking: a named pipe without a writer would hold the open forever. */
    int fd = is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) MP_TRY(system_failure(err, "the file cannot be opened"));
    if (fstat(fd, &info) != 0) MP_TRY(system_failure(err, "the file cannot be examined"));
    MP_REQUIRE(!S_ISDIR(info.st_mode), err, MP_IO, "a file is needed, this is a directory");
    MP_REQUIRE(S_ISREG(info.st_mode), err, MP_IO, "a regular file is needed, this is a device or a pipe");
    MP_REQUIRE(info.st_size <= limit_bytes, err, MP_PARSE, "the file of %lld bytes is larger than the limit of %lld",
               (long long)info.st_size, (long long)limit_bytes);
    if (info.st_size > 0) {
        file.size = (size_t)info.st_size;
        file.mapping = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file.mapping == MAP_FAILED) MP_TRY(system_failure(err, "the file cannot be read"));
        file.bytes = file.mapping;
        if (file.size > READ_AHEAD_BYTES) madvise(file.mapping, file.size, MADV_RANDOM); /* advice: a refusal does no harm */
    }
    *out = file;
done:
    if (fd >= 0) close(fd);
    if (st != MP_OK) mp_error_locate(err, path, 0, 0);
    return st;
}

void mp_file_close(mp_file *file)
{
    if (file->mapping) munmap(file->mapping, file->size);
    *file = (mp_file){0};
}

static mp_status write_all(int fd, const mp_file_part *parts, size_t n_parts, mp_error *err)
{
    for (size_t k = 0; k < n_parts; k++) {
        const char *at = parts[k].bytes;
        for (size_t size = parts[k].size; size > 0;) {
            ssize_t n = write(fd, at, size);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return system_failure(err, "writing failed");
            at += n;
            size -= (size_t)n;
        }
    }
    return MP_OK;
}

/* Devices and pipes have no contents to protect, and must not be replaced by a file: written as they are. */
static mp_status write_through(const char *path, const mp_file_part *parts, size_t n, mp_error *err)
{
    mp_status st = MP_OK;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) MP_TRY(system_failure(err, "the file cannot be written"));
    MP_TRY(write_all(fd, parts, n, err));
done:
    if (fd >= 0 && close(fd) != 0 && st == MP_OK) st = system_failure(err, "writing failed");
    return st;
}

/* Creates a file of a name that is not taken yet beside `path`. */
static mp_status open_beside(const char *path, char *name, size_t size, int *fd, mp_error *err)
{
    for (int k = 0; k < TEMPORARY_TRIES; k++) {
        snprintf(name, size, "%s.%ld-%d.tmp", path, (long)getpid(), k);
        *fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0) return MP_OK;
        if (errno != EEXIST) break;
    }
    return system_failure(err, "the file cannot be written");
}

static mp_status replace(const char *path, const struct stat *old, const mp_file_part *parts, size_t n, mp_error *err)
{
    mp_status st = MP_OK;
    size_t size = strlen(path) + 64;
    int fd = -1, closed;
    char *temporary = mp_alloc(size, 1);
    MP_REQUIRE(temporary, err, MP_NOMEM, "no memory to write a file");
    MP_TRY(open_beside(path, temporary, size, &fd, err));
    MP_TRY(write_all(fd, parts, n, err));
    if (old && fchmod(fd, old->st_mode & 07777) != 0) MP_TRY(system_failure(err, "the file's permissions cannot be kept"));
    if (fsync(fd) != 0) MP_TRY(system_failure(err, "writing failed"));
    closed = close(fd);
    fd = -1;
    if (closed != 0 || rename(temporary, path) != 0) {
        st = system_failure(err, "writing failed");
        unlink(temporary);
    }
done:
    if (fd >= 0) {
        close(fd);
        unlink(temporary);
    }
    mp_free(temporary);
    return st;
}

mp_status mp_file_write(const char *path, const void *bytes, size_t size, mp_error *err)
{
    mp_file_part whole = {bytes, size};
    return mp_file_write_parts(path, &whole, 1, err);
}

mp_status mp_file_write_parts(const char *path, const mp_file_part *parts, size_t n, mp_error *err)
{
    mp_status st = MP_OK;
    struct stat info;
    if (!strcmp(path, "-")) {
        for (size_t k = 0; k < n && st == MP_OK; k++)
            if (fwrite(parts[k].bytes, 1, parts[k].size, stdout) != parts[k].size) st = system_failure(err, "writing failed");
        if (st == MP_OK && fflush(stdout) != 0) st = system_failure(err, "writing failed");
    } else if (stat(path, &info) != 0) {
        st = replace(path, NULL, parts, n, err);
    } else if (S_ISDIR(info.st_mode)) {
        st = MP_FAIL(err, MP_IO, "the file cannot be written: it is a directory");
    } else {
        /* A link is followed by hand: the file it points to is replaced, not the link. */
        char *target = S_ISREG(info.st_mode) ? realpath(path, NULL) : NULL;
        st = target ? replace(target, &info, parts, n, err) : write_through(path, parts, n, err);
        free(target);
    }
    if (st != MP_OK) mp_error_locate(err, path, 0, 0);
    return st;
}

mp_status mp_file_try(const char *path, mp_error *err)
{
    mp_status st = MP_OK;
    struct stat info;
    int fd = -1;
    const bool exists = stat(path, &info) == 0;
    char *target = exists && S_ISREG(info.st_mode) ? realpath(path, NULL) : NULL, *name = NULL;
    if (!strcmp(path, "-")) goto done;
    if (exists && S_ISDIR(info.st_mode)) MP_TRY(MP_FAIL(err, MP_IO, "the file cannot be written: it is a directory"));
    if (exists && !S_ISREG(info.st_mode)) { /* a device or a pipe: opening it might be noticed */
        if (access(path, W_OK) != 0) MP_TRY(system_failure(err, "the file cannot be written"));
        goto done;
    }
    const char *at = target ? target : path;
    const size_t size = strlen(at) + 64;
    MP_REQUIRE(name = mp_alloc(size, 1), err, MP_NOMEM, "no memory to write a file");
    MP_TRY(open_beside(at, name, size, &fd, err));
    close(fd);
    unlink(name);
done:
    mp_free(name);
    free(target);
    if (st != MP_OK) mp_error_locate(err, path, 0, 0);
    return st;
}
