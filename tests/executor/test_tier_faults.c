/* test_tier_faults.c - real faults of a tier: each gives one sentence and leaves no files.
 *
 * Process limits are set, and privileges dropped, in a child process. `child` runs there, and its exit status tells whether the
 * sentence was right. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "estimator/base/memory.h"
#include "executor/tiers/copy_queue.h"
#include "tests/cases/test.h"

enum { BYTES = 1 << 20, SKIPPED = 77 };

static char folder[512];

/* Simulates file systems with missing features: flags refused by open, and no fallocate. These functions replace the C
 * library's. */
static int refused_flags, refused_with;
static bool has_no_fallocate;

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (refused_flags && (flags & refused_flags) == refused_flags) return errno = refused_with, -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    if (has_no_fallocate) return errno = EOPNOTSUPP, -1;
    return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

static int set_up(void **state)
{
    const char *place = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%s/memplan-tier-XXXXXX", place ? place : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

/* rmdir fails if a file remains in the folder. */
static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    return test_run(set_up, tear_down);
}

/* Fails unless opening the tier fails with this status. The message must consist of `before`, the folder and `after`. */
static void assert_refused(const char *in, int64_t bytes, bool locked, mp_status status, const char *before, const char *after)
{
    char expected[1024];
    mp_error err = {0};
    mp_tier tier = {.bytes = 3};
    const mp_status st = mp_tier_open("disk", in, bytes, locked, &tier, &err);
    snprintf(expected, sizeof expected, "%s%s%s", before, in ? in : "", after);
    if (st != status || strcmp(err.message, expected) != 0)
        fail_msg("%s: \"%s\" instead of \"%s\"", mp_status_text(st), err.message, expected);
    assert_int_equal(tier.bytes, 3);
    assert_false(tier.is_open);
}

/* Runs a function in a child process and returns its exit status; 0 is success. */
static int in_child(int (*function)(void))
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (!child) _exit(function());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Runs in a child: returns 0 if opening the tier fails with exactly this sentence. */
static int is_refused(const char *in, int64_t bytes, bool locked, const char *sentence)
{
    mp_error err = {0};
    mp_tier tier;
    if (mp_tier_open("disk", in, bytes, locked, &tier, &err) == MP_OK) return 1;
    if (strcmp(err.message, sentence) == 0) return 0;
    fprintf(stderr, "\"%s\" instead of \"%s\"\n", err.message, sentence);
    return 2;
}

TEST(a_folder_that_is_not_there)
{
    assert_refused("/tmp/no/such/folder", BYTES, false, MP_IO, "cannot create a file for the tier 'disk' in ",
                   ": No such file or directory");
    assert_refused("/proc/self/status", BYTES, false, MP_IO, "cannot create a file for the tier 'disk' in ",
                   ": Not a directory");
    assert_refused("/proc", BYTES, false, MP_IO, "cannot create a file for the tier 'disk' in ", ": No such file or directory");
    assert_refused(folder, INT64_MAX - 5, false, MP_INVALID, "9223372036854775802 bytes are too many for the tier 'disk' in ",
                   "");
}

static int without_room_for_files(void)
{
    char sentence[1024];
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){BYTES / 2, BYTES / 2}) != 0) return SKIPPED;
    snprintf(sentence, sizeof sentence, "cannot reserve %d bytes for the tier 'disk' in %s: File too large", BYTES, folder);
    return is_refused(folder, BYTES, false, sentence);
}

static int on_a_small_disk(void)
{
    char sentence[1024];
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return SKIPPED;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("disk", folder, "tmpfs", 0, "size=512k") != 0)
        return SKIPPED;
    snprintf(sentence, sizeof sentence, "cannot reserve %d bytes for the tier 'disk' in %s: No space left on device", BYTES,
             folder);
    return is_refused(folder, BYTES, false, sentence) + (rmdir(folder) == 0);
}

TEST(no_room_on_the_disk)
{
    assert_int_equal(in_child(without_room_for_files), 0);
    const int status = in_child(on_a_small_disk);
    if (status == SKIPPED) skip(); /* mounting is not permitted here */
    assert_int_equal(status, 0);
}

static int without_memory(void)
{
    struct rlimit most = {INT64_C(1) << 34, INT64_C(1) << 34};
    if (setrlimit(RLIMIT_AS, &most) != 0) return SKIPPED;
    return is_refused(NULL, INT64_C(1) << 40, false,
                      "there is not enough memory for the 1099511627776 bytes of the tier 'disk'");
}

static int without_the_right_to_lock(void)
{
    if (setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){4096, 4096}) != 0) return SKIPPED;
    if (geteuid() == 0 && setuid(65534) != 0) return SKIPPED;
    return is_refused(NULL, BYTES, true,
                      "the 1048576 bytes of memory of the tier 'disk' cannot be locked: Cannot allocate memory");
}

TEST(memory_that_is_not_there_or_cannot_be_locked)
{
    mp_error err = {0};
    mp_tier tier;
    assert_int_equal(in_child(without_memory), 0);
    assert_int_equal(in_child(without_the_right_to_lock), 0);
    assert_int_equal(mp_tier_open("disk", NULL, 4096, true, &tier, &err), MP_OK); /* one page may be locked */
    mp_tier_close(&tier);
    mp_tier_close(&tier);
}

/* Replaces the file of a tier by another one, to simulate a system fault. */
static void replace(const mp_tier *tier, const char *path, int flags)
{
    const int other = open(path, flags);
    assert_true(other >= 0 && dup2(other, tier->file) == tier->file);
    close(other);
}

/* A tier with a queue on which one copy has succeeded. The next copy must fail with this sentence, and so must the one after.
 */
static void fail_with(bool plain, bool is_out, void (*spoil)(const mp_tier *tier), const char *before, const char *after)
{
    char expected[1024];
    mp_error err = {0};
    mp_tier tier;
    mp_copy_queue *queue;
    int64_t ticket[3];
    char *memory = calloc(1, 4 * BYTES);
    assert_int_equal(mp_tier_open("disk", folder, 4 * BYTES, false, &tier, &err), MP_OK);
    assert_int_equal(mp_copy_queue_new(&(mp_copy_queue_options){.plain = plain}, &queue, &err), MP_OK);
    mp_copy copy = {&tier, 0, memory, 4 * BYTES, true, "conv1.out"};
    assert_int_equal(mp_copy_queue_issue(queue, &copy, &ticket[0], &err), MP_OK);
    assert_int_equal(mp_copy_queue_wait(queue, ticket[0], &err), MP_OK);
    spoil(&tier);
    copy.is_out = is_out;
    for (int k = 1; k < 3; k++) assert_int_equal(mp_copy_queue_issue(queue, &copy, &ticket[k], &err), MP_OK);
    snprintf(expected, sizeof expected, "%s%s%s", before, folder, after);
    for (int k = 2; k > 0; k--) {
        memset(&err, 0, sizeof err);
        assert_int_equal(mp_copy_queue_wait(queue, ticket[k], &err), MP_IO);
        assert_string_equal(err.message, expected);
    }
    assert_int_equal(mp_copy_queue_wait(queue, ticket[0], NULL), MP_OK);
    replace(&tier, "/dev/zero", O_RDWR); /* a failed copy is not retried */
    usleep(10000);
    assert_int_equal(mp_copy_queue_wait(queue, ticket[2], NULL), MP_IO);
    assert_int_equal(mp_copy_queue_copied(queue).out_bytes, 4 * BYTES);
    assert_int_equal(mp_copy_queue_copied(queue).in_bytes, 0);
    mp_copy_queue_free(queue);
    mp_tier_close(&tier);
    free(memory);
}

static void fill_disk(const mp_tier *tier)
{
    replace(tier, "/dev/full", O_RDWR);
}

static void break_disk(const mp_tier *tier)
{
    replace(tier, "/proc/self/mem", O_RDONLY); /* address 0 is unmapped: reading it is an I/O error */
}

static void shorten(const mp_tier *tier)
{
    assert_int_equal(ftruncate(tier->file, BYTES + BYTES / 2), 0);
}

TEST(a_disk_that_fails_in_a_copy)
{
    for (int plain = 0; plain < 2; plain++) {
        fail_with(plain, true, fill_disk, "'conv1.out' cannot be copied to the tier 'disk' in ", ": No space left on device");
        fail_with(plain, false, break_disk, "'conv1.out' cannot be copied back from the tier 'disk' in ",
                  ": Input/output error");
        fail_with(plain, false, shorten, "'conv1.out' cannot be copied back from the tier 'disk' in ", ": No data available");
    }
}

/* Copies out and back, and compares the bytes. */
static void assert_works(const mp_tier *tier)
{
    mp_error err = {0};
    mp_copy_queue *queue;
    int64_t ticket = 0;
    char *memory = malloc(2 * BYTES);
    memset(memory, 1, BYTES);
    memset(memory + BYTES, 0, BYTES);
    assert_int_equal(mp_copy_queue_new(&(mp_copy_queue_options){0}, &queue, &err), MP_OK);
    const mp_copy out = {tier, 0, memory, BYTES, true, "x"}, in = {tier, 0, memory + BYTES, BYTES, false, "x"};
    assert_int_equal(mp_copy_queue_issue(queue, &out, &ticket, &err), MP_OK);
    assert_int_equal(mp_copy_queue_issue(queue, &in, &ticket, &err), MP_OK);
    if (mp_copy_queue_wait(queue, ticket, &err) != MP_OK) fail_msg("%s", err.message);
    assert_memory_equal(memory, memory + BYTES, BYTES);
    mp_copy_queue_free(queue);
    free(memory);
}

TEST(a_folder_that_vanishes_takes_nothing_along)
{
    mp_error err = {0};
    mp_tier tier;
    assert_int_equal(mp_tier_open("disk", folder, BYTES, false, &tier, &err), MP_OK);
    assert_int_equal(rmdir(folder), 0); /* the folder is empty */
    assert_works(&tier);
    mp_tier_close(&tier);
    assert_refused(folder, BYTES, false, MP_IO, "cannot create a file for the tier 'disk' in ", ": No such file or directory");
    assert_int_equal(mkdir(folder, 0700), 0);
}

TEST(file_systems_that_cannot_do_everything)
{
    const struct {
        int flags, with;
        bool no_fallocate, is_direct;
    } cases[] = {{O_TMPFILE, EOPNOTSUPP, false, true}, {O_TMPFILE, EISDIR, true, true}, {O_DIRECT, EINVAL, true, false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mp_error err = {0};
        mp_tier tier, plain;
        assert_int_equal(mp_tier_open("disk", folder, BYTES, false, &plain, &err), MP_OK);
        refused_flags = cases[k].flags;
        refused_with = cases[k].with;
        has_no_fallocate = cases[k].no_fallocate;
        const mp_status st = mp_tier_open("disk", folder, BYTES, false, &tier, &err);
        refused_flags = 0;
        has_no_fallocate = false;
        if (st != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(tier.is_direct, cases[k].is_direct && plain.is_direct);
        assert_int_equal(rmdir(folder), 0); /* the file's name is already removed */
        assert_int_equal(mkdir(folder, 0700), 0);
        assert_works(&tier);
        mp_tier_close(&tier);
        mp_tier_close(&plain);
    }
}

/* Without io_uring, copies still work. */
static int without_descriptors(void)
{
    const int last = dup(0);
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)last, (rlim_t)last}) != 0) return SKIPPED;
    close(last);
    const int taken = dup(0);
    mp_transfer *transfer = mp_transfer_new(false);
    if (!transfer || mp_transfer_has_ring(transfer) || taken >= last) return 1;
    mp_transfer_free(transfer);
    return 0;
}

TEST(no_io_uring)
{
    mp_transfer *plain = mp_transfer_new(true);
    assert_false(mp_transfer_has_ring(plain));
    mp_transfer_free(plain);
    assert_int_equal(in_child(without_descriptors), 0);
}

TEST(every_allocation_fails_in_turn)
{
    mp_copy_queue *queue = NULL;
    long n = 0;
    for (mp_status st = MP_NOMEM; st != MP_OK; n++) {
        mp_error err = {0};
        const long live = mp_alloc_live;
        mp_alloc_budget = n;
        st = mp_copy_queue_new(&(mp_copy_queue_options){0}, &queue, &err);
        mp_alloc_budget = -1;
        if (st == MP_OK) break;
        assert_int_equal(st, MP_NOMEM);
        assert_null(queue);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_int_equal(n, 3);
    mp_copy_queue_free(queue);
}

/* Copies without end until the process is killed. Writes a byte to `tell` after some copies. */
static void copy_on(int tell)
{
    mp_tier tier;
    mp_copy_queue *queue;
    int64_t ticket;
    char *memory = calloc(1, BYTES);
    if (mp_tier_open("disk", folder, BYTES, false, &tier, NULL) != MP_OK) _exit(1);
    if (mp_copy_queue_new(&(mp_copy_queue_options){0}, &queue, NULL) != MP_OK) _exit(1);
    for (int k = 0;; k++) {
        const mp_copy copy = {&tier, 0, memory, BYTES, k % 2 == 0, "x"};
        if (mp_copy_queue_issue(queue, &copy, &ticket, NULL) != MP_OK) _exit(1);
        if (k == 20 && write(tell, "x", 1) != 1) _exit(1);
    }
}

TEST(a_kill_in_a_copy_leaves_nothing)
{
    for (int turn = 0; turn < 5; turn++) {
        int ends[2], status;
        char byte;
        assert_int_equal(pipe(ends), 0);
        fflush(NULL);
        const pid_t child = fork();
        if (!child) copy_on(ends[1]);
        close(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(rmdir(folder), 0);
        assert_int_equal(mkdir(folder, 0700), 0);
        close(ends[0]);
    }
}

/* Issued copies that are not awaited end with their queue. */
TEST(a_queue_ends_in_the_middle_of_its_copies)
{
    for (int kind = 0; kind < 3; kind++) {
        mp_error err = {0};
        mp_tier tier;
        mp_copy_queue *queue;
        int64_t ticket;
        char *memory = calloc(1, 8 * BYTES);
        assert_int_equal(mp_tier_open("disk", kind ? folder : NULL, 8 * BYTES, false, &tier, &err), MP_OK);
        assert_int_equal(mp_copy_queue_new(&(mp_copy_queue_options){.plain = kind == 2}, &queue, &err), MP_OK);
        for (int k = 0; k < 20; k++) {
            const mp_copy copy = {&tier, 0, memory, 8 * BYTES, k % 2 == 0, "x"};
            assert_int_equal(mp_copy_queue_issue(queue, &copy, &ticket, &err), MP_OK);
        }
        mp_copy_queue_free(queue);
        free(memory); /* no longer used by the queue */
        mp_tier_close(&tier);
    }
}
