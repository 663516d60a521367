/* file.c - bounded reading and atomic writing.
 *
 * A file is mapped for reading, so that unread weights of a huge model are never loaded. For writing, a new file is created
 * beside the old one, and renamed after all data are on the disk. A full disk or a crash therefore leaves the old file
 * intact. The new file is locked as long as the writing process runs. If this process is killed, the lock is gone, and the
 * next run removes the file. */
#include "formats/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/base/text.h"

enum {
    READ_AHEAD_BYTES = 64 << 20, /* files above this size are mapped without read-ahead, because read-ahead would load parts
                                    that are never read */
    TEMPORARY_TRIES = 100
};

static mp_status system_failure(mp_error *err, const char *what)
{
    char text[128];
    const char *reason = strerror_r(errno, text, sizeof text) == 0 ? text : "unknown reason";
    return MP_FAIL(err, MP_IO, "%s: %s", what, reason);
}

static void close_descriptor(int *fd)
{
    if (*fd >= 0) close(*fd);
}

bool mp_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

mp_status mp_file_open(const char *path, int64_t limit_bytes, mp_file *out, mp_error *err)
{
    MP_ABOUT(err, path);
    struct stat info;
    mp_file file = {.bytes = (const uint8_t *)""};
    const bool is_input = !strcmp(path, "-");
    /* The file is opened without blocking, because opening a named pipe without a writer would block forever. */
    MP_CLEARED_BY(close_descriptor)
    int fd = is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return system_failure(err, "the file cannot be opened");
    if (fstat(fd, &info) != 0) return system_failure(err, "the file cannot be examined");
    MP_ENSURE(!S_ISDIR(info.st_mode), err, MP_IO, "a file is needed, this is a directory");
    MP_ENSURE(S_ISREG(info.st_mode), err, MP_IO, "a regular file is needed, this is a device or a pipe");
    MP_ENSURE(info.st_size <= limit_bytes, err, MP_PARSE, "the file of %lld bytes is larger than the limit of %lld",
              (long long)info.st_size, (long long)limit_bytes);
    if (info.st_size > 0) {
        file.size = (size_t)info.st_size;
        file.mapping = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file.mapping == MAP_FAILED) return system_failure(err, "the file cannot be read");
        file.bytes = file.mapping;
        if (file.size > READ_AHEAD_BYTES)
            madvise(file.mapping, file.size, MADV_RANDOM); /* the call of madvise is only a hint, so its failure is ignored */
    }
    *out = file;
    return MP_OK;
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

/* Writes to a device or pipe directly. A device or pipe has no contents to protect, and must not be replaced by a file. */
static mp_status write_through(const char *path, const mp_file_part *parts, size_t n, mp_error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return system_failure(err, "the file cannot be written");
    const mp_status st = write_all(fd, parts, n, err);
    return close(fd) != 0 && st == MP_OK ? system_failure(err, "writing failed") : st;
}

/* Opens the folder that contains a file; -1: the folder cannot be read. */
static int open_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    return fd;
}

/* True if `name` has the form base.PID-K.tmp, the name of a temporary file that open_beside creates for `base`. */
static bool is_temporary(const char *name, const char *base)
{
    static const char digits[] = "0123456789";
    const size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || name[n] != '.') return false;
    const char *pid = name + n + 1, *k = pid + strspn(pid, digits);
    return k > pid && *k == '-' && k[1 + strspn(k + 1, digits)] == '.' && !strcmp(k + 1 + strspn(k + 1, digits), ".tmp");
}

/* Removes the temporary files that killed processes of this user have left in the folder. A running process locks its
 * temporary file, so a file without a lock is left over. */
static void remove_left_behind(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    int folder = open_folder(path);
    DIR *list = folder >= 0 ? fdopendir(folder) : NULL;
    if (!list && folder >= 0) close(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        struct stat info;
        if (!is_temporary(entry->d_name, base)) continue;
        int fd = openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(folder, entry->d_name, 0);
        close(fd);
    }
    if (list) closedir(list);
}

/* Creates a new file beside `path` under an unused name, and locks the file. */
static mp_status open_beside(const char *path, char *name, size_t size, int *fd, mp_error *err)
{
    remove_left_behind(path);
    for (int k = 0; k < TEMPORARY_TRIES; k++) {
        struct stat info;
        snprintf(name, size, "%s.%ld-%d.tmp", path, (long)getpid(), k);
        *fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0) {
            /* another process of memplan may have removed the new file before it was locked */
            const bool taken = flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
            if (!taken && fstat(*fd, &info) == 0 && info.st_nlink > 0) return MP_OK;
            close(*fd);
            *fd = -1;
            unlink(name);
        } else if (errno != EEXIST) {
            break;
        }
    }
    return system_failure(err, "the file cannot be written");
}

/* Flushes the folder to the disk, including the file's new name. Some file systems do not support this, so a failure is
 * ignored. */
static mp_status sync_folder(const char *path, mp_error *err)
{
    mp_status st = MP_OK;
    int fd = open_folder(path);
    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        st = system_failure(err, "the file is written, but its folder cannot be synced to disk");
    if (fd >= 0) close(fd);
    return st;
}

/* A temporary file that will replace another file. */
typedef struct beside {
    /* name of the temporary file; empty: the temporary file has already been renamed to the file that it replaces */
    char *name;
    int fd, lock;
} beside;

static void beside_free(beside *b)
{
    if (b->name && b->name[0] && (b->fd >= 0 || b->lock >= 0)) unlink(b->name);
    close_descriptor(&b->fd);
    close_descriptor(&b->lock);
    mp_free(b->name);
}

static mp_status replace(const char *path, const struct stat *old, const mp_file_part *parts, size_t n, mp_error *err)
{
    size_t size = strlen(path) + 64;
    MP_CLEARED_BY(beside_free) beside b = {.name = mp_alloc(size, 1), .fd = -1, .lock = -1};
    MP_ENSURE(b.name, err, MP_NOMEM, "no memory to write a file");
    MP_CHECK(open_beside(path, b.name, size, &b.fd, err));
    b.lock = fcntl(b.fd, F_DUPFD_CLOEXEC,
                   0); /* a second descriptor keeps the lock after fd is closed, because fd must be closed before the rename */
    if (b.lock < 0) return system_failure(err, "writing failed");
    MP_CHECK(write_all(b.fd, parts, n, err));
    if (old && fchmod(b.fd, old->st_mode & 07777) != 0) return system_failure(err, "the file's permissions cannot be kept");
    if (fsync(b.fd) != 0) return system_failure(err, "writing failed");
    const int closed = close(b.fd);
    b.fd = -1;
    if (closed != 0 || rename(b.name, path) != 0) return system_failure(err, "writing failed");
    b.name[0] = '\0';
    return sync_folder(path, err);
}

/* Examines the file at a path. If no file exists there, *exists is false. Refuses a dangling or circular link, because its
 * target is not the intended file. */
static mp_status examine(const char *path, struct stat *info, bool *exists, mp_error *err)
{
    struct stat itself;
    *exists = stat(path, info) == 0;
    if (!*exists && lstat(path, &itself) == 0 && S_ISLNK(itself.st_mode))
        return MP_FAIL(err, MP_IO, "the file cannot be written: it is a broken link");
    if (*exists && S_ISDIR(info->st_mode)) return MP_FAIL(err, MP_IO, "the file cannot be written: it is a directory");
    return MP_OK;
}

mp_status mp_file_write(const char *path, const void *bytes, size_t size, mp_error *err)
{
    mp_file_part whole = {bytes, size};
    return mp_file_write_parts(path, &whole, 1, err);
}

static mp_status write_to_output(const mp_file_part *parts, size_t n, mp_error *err)
{
    for (size_t k = 0; k < n; k++)
        if (fwrite(parts[k].bytes, 1, parts[k].size, stdout) != parts[k].size) return system_failure(err, "writing failed");
    return fflush(stdout) != 0 ? system_failure(err, "writing failed") : MP_OK;
}

mp_status mp_file_write_parts(const char *path, const mp_file_part *parts, size_t n, mp_error *err)
{
    MP_ABOUT(err, strcmp(path, "-") ? path : MP_STANDARD_OUTPUT);
    struct stat info;
    bool exists = false;
    if (!strcmp(path, "-")) return write_to_output(parts, n, err);
    MP_CHECK(examine(path, &info, &exists, err));
    if (!exists) return replace(path, NULL, parts, n, err);
    if (!S_ISREG(info.st_mode)) return write_through(path, parts, n, err);
    /* the link is resolved, so that the file it points to is replaced, not the link itself */
    MP_OWNED_BY(free) char *target = realpath(path, NULL);
    return target ? replace(target, &info, parts, n, err) : system_failure(err, "the file cannot be written");
}

mp_status mp_file_try(const char *path, mp_error *err)
{
    MP_ABOUT(err, path);
    struct stat info;
    int fd = -1;
    bool exists = false;
    MP_OWNED_BY(free) char *target = NULL;
    MP_OWNED char *name = NULL;
    if (!strcmp(path, "-")) return MP_OK;
    MP_CHECK(examine(path, &info, &exists, err));
    if (exists && !S_ISREG(info.st_mode)) { /* a device or a pipe is not opened here, because opening could have side effects */
        if (access(path, W_OK) != 0) return system_failure(err, "the file cannot be written");
        return MP_OK;
    }
    if (exists) target = realpath(path, NULL);
    const char *at = target ? target : path;
    const size_t size = strlen(at) + 64;
    MP_ENSURE(name = mp_alloc(size, 1), err, MP_NOMEM, "no memory to write a file");
    MP_CHECK(open_beside(at, name, size, &fd, err));
    unlink(name);
    close(fd);
    return MP_OK;
}
