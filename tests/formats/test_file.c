/* test_file.c - reads files within limits, and writes whole files or none. */
#include "formats/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "estimator/base/memory.h"
#include "tests/cases/test.h"

static char folder[64], target[128];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/memplan-test-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(target, sizeof target, "%s/file", folder);
    return 0;
}

/* Removes the files named by the tests; the folder must then be empty. */
static int remove_folder(void **state)
{
    (void)state;
    char link[160];
    snprintf(link, sizeof link, "%s-link", target);
    unlink(link);
    unlink(target);
    return rmdir(folder);
}

static void assert_contents(const char *path, const char *expected)
{
    mp_error err = {0};
    mp_file file;
    if (mp_file_open(path, 1000, &file, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(file.size, strlen(expected));
    assert_memory_equal(file.bytes, expected, file.size);
    mp_file_close(&file);
    assert_null(file.mapping);
    mp_file_close(&file);
}

static void assert_unreadable(const char *path, mp_status expected, const char *word)
{
    mp_error err = {0};
    mp_file file = {0};
    assert_int_equal(mp_file_open(path, 3, &file, &err), expected);
    assert_string_equal(err.input, path);
    if (!strstr(err.message, word)) fail_msg("'%s' is not in: %s", word, err.message);
    assert_null(file.mapping);
}

TEST(what_is_written_is_read)
{
    assert_int_equal(mp_file_write(target, "abc", 3, NULL), MP_OK);
    assert_contents(target, "abc");
    assert_int_equal(mp_file_write(target, "", 0, NULL), MP_OK);
    assert_contents(target, "");
}

TEST(what_cannot_be_read_is_said)
{
    char pipe[160];
    snprintf(pipe, sizeof pipe, "%s-pipe", target);
    assert_int_equal(mp_file_write(target, "abcd", 4, NULL), MP_OK);
    assert_unreadable(target, MP_PARSE, "4 bytes");
    assert_unreadable(folder, MP_IO, "directory");
    assert_unreadable("/nowhere/at/all", MP_IO, "No such file");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_unreadable(pipe, MP_IO, "pipe"); /* without waiting for a writer */
    unlink(pipe);
}

TEST(a_failed_write_leaves_the_old_file)
{
    mp_error err = {0};
    assert_int_equal(mp_file_write(target, "old", 3, NULL), MP_OK);
    mp_alloc_budget = 0;
    assert_int_equal(mp_file_write(target, "new", 3, NULL), MP_NOMEM);
    mp_alloc_budget = -1;
    assert_contents(target, "old");
    assert_int_equal(mp_file_write("/dev/full", "new", 3, &err), MP_IO);
    assert_non_null(strstr(err.message, "No space left"));
    assert_int_equal(mp_file_write(folder, "new", 3, NULL), MP_IO);
    assert_int_equal(mp_file_write("/nowhere/at/all", "new", 3, NULL), MP_IO);
    assert_int_equal(mp_alloc_live, 0);
}

TEST(devices_are_not_replaced)
{
    struct stat info;
    assert_int_equal(mp_file_write("/dev/null", "abc", 3, NULL), MP_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

TEST(permissions_and_links_are_kept)
{
    char link[160];
    struct stat info;
    snprintf(link, sizeof link, "%s-link", target);
    assert_int_equal(mp_file_write(target, "old", 3, NULL), MP_OK);
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(mp_file_write(link, "new", 3, NULL), MP_OK);
    assert_contents(target, "new");
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

TEST(a_minus_is_standard_output)
{
    fflush(stdout);
    int saved = dup(STDOUT_FILENO), fd = open(target, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(saved >= 0 && fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    mp_status st = mp_file_write("-", "abc", 3, NULL);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    close(saved);
    close(fd);
    assert_int_equal(st, MP_OK);
    assert_contents(target, "abc");
}

TEST(what_can_be_written_is_known_before)
{
    mp_error err = {0};
    char absent[160];
    unlink(target);
    if (mp_file_try(target, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(mp_file_write(target, "old", 3, &err), MP_OK);
    assert_int_equal(mp_file_try(target, &err), MP_OK);
    assert_contents(target, "old");
    assert_int_equal(mp_file_try("-", &err), MP_OK);
    assert_int_equal(mp_file_try("/dev/null", &err), MP_OK);
    assert_int_equal(mp_file_try(folder, &err), MP_IO);
    snprintf(absent, sizeof absent, "%s/no/such", folder);
    err = (mp_error){0};
    assert_int_equal(mp_file_try(absent, &err), MP_IO);
    assert_string_equal(err.input, absent);
    assert_int_equal(unlink(target), 0);
}

int main(void)
{
    return test_run(make_folder, remove_folder);
}
