/* faults.c - makes one system call fail, loaded before all other libraries (LD_PRELOAD). FAULT_CALL: open, read, write, fsync,
 * rename, close, mmap or fstat. FAULT_AT: the number of the failing call, from 1. FAULT_ERROR: its errno; 0: the call succeeds
 * with half of the requested bytes, as write and read may. FAULT_MARK: a file created at the fault, so that a sweep can detect
 * its end. Calls within the C library (such as stdio's) are not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns whether this call must fail, with errno set. */
static int is_it(const char *call)
{
    static int n;
    const char *wanted = getenv("FAULT_CALL"), *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERROR");
    const char *mark = getenv("FAULT_MARK");
    if (!wanted || !at || !error || !mark || strcmp(wanted, call) != 0) return 0;
    if (__atomic_add_fetch(&n, 1, __ATOMIC_RELAXED) != (int)strtol(at, NULL, 10)) return 0;
    const long made = syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600);
    if (made >= 0) syscall(SYS_close, (int)made);
    errno = (int)strtol(error, NULL, 10);
    return 1;
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return is_it("open") ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t read(int fd, void *bytes, size_t n)
{
    const int fails = is_it("read");
    if (fails && errno) return -1;
    return syscall(SYS_read, fd, bytes, fails && n > 1 ? n / 2 : n);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    const int fails = is_it("write");
    if (fails && errno) return -1;
    return syscall(SYS_write, fd, bytes, fails && n > 1 ? n / 2 : n);
}

int fsync(int fd)
{
    return is_it("fsync") ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return is_it("rename") ? -1 : (int)syscall(SYS_rename, from, to);
}

int close(int fd) /* like the kernel, closes the descriptor before reporting an error */
{
    const int fails = is_it("close"), why = errno;
    const int closed = (int)syscall(SYS_close, fd);
    if (!fails) return closed;
    errno = why;
    return -1;
}

void *mmap(void *where, size_t n, int protection, int flags, int fd, off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t);
    *(void **)&real = next("mmap");
    return fd >= 0 && is_it("mmap") ? MAP_FAILED : real(where, n, protection, flags, fd, offset);
}

int fstat(int fd, struct stat *info)
{
    int (*real)(int, struct stat *);
    *(void **)&real = next("fstat");
    return is_it("fstat") ? -1 : real(fd, info);
}
