/* test_file.c - reading within limits, writing whole files or none. */
#include "formats/base/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "estimator/base/memory.h"

static char folder[64], target[128];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/memplan-test-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(target, sizeof target, "%s/file", folder);
    return 0;
}

/* Nothing but the files the tests name may be left. */
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

static void what_is_written_is_read(void **state)
{
    (void)state;
    assert_int_equal(mp_file_write(target, "abc", 3, NULL), MP_OK);
    assert_contents(target, "abc");
    assert_int_equal(mp_file_write(target, "", 0, NULL), MP_OK);
    assert_contents(target, "");
}

static void what_cannot_be_read_is_said(void **state)
{
    (void)state;
    char pipe[160];
    snprintf(pipe, sizeof pipe, "%s-pipe", target);
    assert_int_equal(mp_file_write(target, "abcd", 4, NULL), MP_OK);
    assert_unreadable(target, MP_PARSE, "4 bytes");
    assert_unreadable(folder, MP_IO, "directory");
    assert_unreadable("/nowhere/at/all", MP_IO, "No such file");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_unreadable(pipe, MP_IO, "pipe"); /* and nobody waits for a writer */
    unlink(pipe);
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
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

static void devices_are_not_replaced(void **state)
{
    (void)state;
    struct stat info;
    assert_int_equal(mp_file_write("/dev/null", "abc", 3, NULL), MP_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void permissions_and_links_are_kept(void **state)
{
    (void)state;
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

static void a_minus_is_standard_output(void **state)
{
    (void)state;
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

static void what_can_be_written_is_known_before(void **state)
{
    (void)state;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_written_is_read),
                                       cmocka_unit_test(what_cannot_be_read_is_said),
                                       cmocka_unit_test(a_failed_write_leaves_the_old_file),
                                       cmocka_unit_test(devices_are_not_replaced),
                                       cmocka_unit_test(permissions_and_links_are_kept),
                                       cmocka_unit_test(a_minus_is_standard_output),
                                       cmocka_unit_test(what_can_be_written_is_known_before)};
    return cmocka_run_group_tests_name("formats/file", tests, make_folder, remove_folder);
}
