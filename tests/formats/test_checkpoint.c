/* test_checkpoint.c - folders of saved trainings: a committed save can be read. The next save removes an uncommitted one. At
 * every moment the old save or the new one is complete. */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "estimator/base/memory.h"
#include "formats/data/checkpoint.h"
#include "tests/cases/test.h"

static char folder[64];
static const int64_t three[] = {3};

static int count_files(const char *ending)
{
    DIR *list = opendir(folder);
    int n = 0;
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        const size_t length = strlen(entry->d_name), of = strlen(ending);
        n += entry->d_name[0] != '.' && length >= of && !strcmp(entry->d_name + length - of, ending);
    }
    if (list) closedir(list);
    return n;
}

static void clear(void)
{
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));)
        if (entry->d_name[0] != '.') unlinkat(dirfd(list), entry->d_name, 0);
    if (list) closedir(list);
    rmdir(folder);
}

/* Writes part k of a save with one tensor whose values identify the step. */
static mp_status write_part(const mp_save *s, const char *name, int k, double step, char sum[MP_CHECKSUM_TEXT], mp_error *err)
{
    const float values[] = {(float)step, (float)k, 7};
    const mp_named_tensor tensor = {k ? "b" : "a", MP_DTYPE_FLOAT, 1, three, values};
    const mp_metadatum of[] = {{"save", name}, {"step", step == 1 ? "1" : "2"}};
    char path[MP_SAVE_PATH];
    MP_CHECK(mp_checkpoint_part(s->folder, name, k, 2, path, sizeof path, err));
    return mp_safetensors_write_summed(path, &tensor, 1, of, 2, sum, err);
}

static mp_status save_two(int64_t step, mp_error *err)
{
    static const mp_save_entry entries[] = {{"a", 0}, {"b", 1}};
    const mp_metadatum note = {"step", step == 1 ? "1" : "2"};
    MP_CLEARED_BY(mp_checkpoint_end) mp_save s = {0};
    MP_CHECK(mp_checkpoint_begin(folder, step, 2, &s, err));
    char sums[2][MP_CHECKSUM_TEXT];
    for (int k = 0; k < 2; k++) MP_CHECK(write_part(&s, s.name, k, (double)step, sums[k], err));
    return mp_checkpoint_commit(&s, entries, 2, (const char(*)[MP_CHECKSUM_TEXT])sums, &note, 1, err);
}

/* Returns the step in the folder, after checking that metadata and both parts agree; 0: no readable save. */
static int step_in(void)
{
    mp_checkpoint *c;
    if (mp_checkpoint_open(folder, &c, NULL) != MP_OK) return 0;
    const mp_named_tensor *a = mp_checkpoint_find(c, "a"), *b = mp_checkpoint_find(c, "b");
    float of_a[3], of_b[3];
    assert_non_null(a);
    assert_non_null(b);
    memcpy(of_a, a->data, sizeof of_a);
    memcpy(of_b, b->data, sizeof of_b);
    const int step = mp_checkpoint_metadatum(c, "step")[0] - '0';
    assert_true(of_a[0] == (float)step && of_b[0] == (float)step && of_a[1] == 0 && of_b[1] == 1);
    assert_null(mp_checkpoint_find(c, "c"));
    mp_checkpoint_close(c);
    return step;
}

TEST(what_is_committed_comes_back_and_the_rest_is_gone)
{
    mp_error err = {0};
    clear();
    assert_int_equal(step_in(), 0);
    for (int step = 1; step <= 2; step++) {
        if (save_two(step, &err) != MP_OK) fail_msg("%s", err.message);
        assert_int_equal(step_in(), step);
        assert_int_equal(count_files(""), 3);
    }
}

/* A save that stops before its commit leaves the old one intact, and its own parts are removed. */
TEST(a_save_that_is_not_made_changes_nothing)
{
    mp_error err = {0};
    clear();
    assert_int_equal(save_two(1, &err), MP_OK);
    for (int n_written = 0; n_written <= 2; n_written++) {
        mp_save s = {0};
        assert_int_equal(mp_checkpoint_begin(folder, 2, 2, &s, &err), MP_OK);
        for (int k = 0; k < n_written; k++) assert_int_equal(write_part(&s, s.name, k, 2, NULL, &err), MP_OK);
        assert_int_equal(count_files(".safetensors"), 2 + n_written);
        assert_int_equal(step_in(), 1);
        mp_checkpoint_end(&s);
        assert_int_equal(count_files(""), 3);
        assert_int_equal(step_in(), 1);
    }
}

/* The next save removes parts and temporary files of a killed run, and no other files in the folder. */
TEST(a_save_clears_away_what_is_left_behind)
{
    static const char *const left[] = {"step-3.6b0a.1-of-2.safetensors", "step-3.6b0a.2-of-2.safetensors.4711-0.tmp"},
                             *const others[] = {"notes.txt", "step-3.safetensors", "model.safetensors",
                                                "step-.1.1-of-2.safetensors"};
    mp_error err = {0};
    char path[MP_SAVE_PATH];
    clear();
    assert_int_equal(save_two(1, &err), MP_OK);
    for (int k = 0; k < 6; k++) {
        assert_int_equal(mp_checkpoint_part(folder, "x", 0, 1, path, sizeof path, &err), MP_OK);
        snprintf(path, sizeof path, "%s/%s", folder, k < 2 ? left[k] : others[k - 2]);
        fclose(fopen(path, "w"));
    }
    assert_int_equal(count_files(""), 9);
    assert_int_equal(save_two(2, &err), MP_OK);
    assert_int_equal(count_files(""), 7);
    for (int k = 0; k < 4; k++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[k]);
        assert_int_equal(access(path, F_OK), 0);
    }
    assert_int_equal(step_in(), 2);
}

TEST(two_trainings_do_not_save_into_one_folder_at_once)
{
    mp_error err = {0};
    mp_save one = {0}, two = {0};
    clear();
    assert_int_equal(mp_checkpoint_begin(folder, 1, 2, &one, &err), MP_OK);
    assert_int_equal(mp_checkpoint_begin(folder, 1, 2, &two, &err), MP_IO);
    assert_string_equal(err.message, "another training saves into this folder");
    mp_checkpoint_end(&one);
    err = (mp_error){0};
    assert_int_equal(mp_checkpoint_begin(folder, 1, 2, &two, &err), MP_OK);
    mp_checkpoint_end(&two);
    mp_checkpoint_end(&two);
}

/* Returns the bytes of a file; the caller frees them. */
static unsigned char *contents_of(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void put_contents(const char *path, const unsigned char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Returns whether opening the folder fails with MP_PARSE, or all values found equal the result of save_two(2). */
static bool is_refused_or_whole(mp_status *opened)
{
    mp_checkpoint *c = NULL;
    *opened = mp_checkpoint_open(folder, &c, NULL);
    if (*opened != MP_OK) return *opened == MP_PARSE;
    const char *step = mp_checkpoint_metadatum(c, "step");
    bool is_whole = !step || !strcmp(step, "2");
    for (int k = 0; k < 2; k++) {
        const float wanted[] = {2, (float)k, 7};
        const mp_named_tensor *t = mp_checkpoint_find(c, k ? "b" : "a");
        is_whole &= !t || !memcmp(t->data, wanted, sizeof wanted);
    }
    mp_checkpoint_close(c);
    return is_whole;
}

/* Flips each bit in turn. In a part, it is refused. In the index, it is refused or changes no value that is read. */
TEST(a_flipped_bit_is_noticed)
{
    mp_error err = {0};
    clear();
    assert_int_equal(save_two(2, &err), MP_OK);
    DIR *list = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(list));) {
        char path[MP_SAVE_PATH];
        size_t size;
        mp_status opened;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unsigned char *bytes = contents_of(path, &size);
        const bool is_part = strstr(entry->d_name, "-of-");
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            put_contents(path, bytes, size);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            if (!is_refused_or_whole(&opened) || (is_part && opened == MP_OK))
                fail_msg("%s: bit %zu goes unnoticed", entry->d_name, bit);
        }
        put_contents(path, bytes, size);
        free(bytes);
        assert_int_equal(step_in(), 2);
    }
    closedir(list);
}

/* Out of memory at any call: the folder has the old save or the new one, and no memory leaks. */
TEST(memory_that_is_short_loses_nothing)
{
    mp_error err = {0};
    clear();
    assert_int_equal(save_two(1, &err), MP_OK);
    const long live = mp_alloc_live;
    mp_status saved = MP_NOMEM, opened = MP_NOMEM;
    for (long k = 0; saved != MP_OK || opened != MP_OK; k++) {
        mp_checkpoint *c = NULL;
        mp_alloc_budget = k;
        saved = save_two(2, NULL);
        mp_alloc_budget = k;
        opened = mp_checkpoint_open(folder, &c, NULL);
        mp_alloc_budget = -1;
        mp_checkpoint_close(c);
        assert_true(saved == MP_OK || saved == MP_NOMEM || saved == MP_IO);
        assert_true(opened == MP_OK || opened == MP_NOMEM);
        assert_true(step_in() == 2 || (saved != MP_OK && step_in() == 1));
        assert_int_equal(mp_alloc_live, live);
        assert_true(k < 1000);
    }
    assert_int_equal(step_in(), 2);
    assert_int_equal(count_files(""), 3);
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/memplan-checkpoint-%ld", (long)getpid());
    const int failed = test_run(NULL, NULL);
    clear();
    return failed;
}
