/* test_feed.c - batches: every sample once an epoch, in an order that is a function of the seed; misfits are refused before the
 * first batch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "executor/data/feed.h"

static char folder[64];

static const char *put(const char *name, const void *bytes, size_t n)
{
    static char texts[8][256];
    static int at;
    char *text = texts[at++ % 8], path[128];
    snprintf(path, sizeof path, "%s.%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
    snprintf(text, 256, "%s=%s", name, path);
    return text;
}

enum { N = 7, B = 3 };

/* Image k is {k, k}, its label k. */
static const char *image_file(int n)
{
    uint8_t bytes[64] = {0, 0, 8, 2, 0, 0, 0, (uint8_t)n, 0, 0, 0, 2};
    for (int k = 0; k < 2 * n; k++) bytes[12 + k] = (uint8_t)(k / 2);
    return put("image", bytes, 12 + 2 * (size_t)n);
}
static const char *label_file(int n, int last)
{
    uint8_t bytes[64] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)n};
    for (int k = 0; k < n; k++) bytes[8 + k] = (uint8_t)(k == n - 1 ? last : k);
    return put("label", bytes, 8 + (size_t)n);
}

static const int64_t image_dims[] = {B, 1, 2}, label_dims[] = {B};
static const mp_feed_slot slots[] = {{"image", MP_DTYPE_FLOAT, 3, image_dims, 0, false},
                                     {"label", MP_DTYPE_INT64, 1, label_dims, 10, true}};

static void an_epoch_has_every_sample_once(void **state)
{
    (void)state;
    const char *sources[] = {image_file(N), label_file(N, N - 1)};
    mp_error err = {0};
    mp_feed *feed;
    float image[B * 2];
    int64_t label[B];
    void *rows[] = {image, label};
    assert_int_equal(mp_feed_open(slots, 2, sources, 2, 5, &feed, &err), MP_OK);
    int seen[3][N] = {{0}}, order[3 * N];
    for (int k = 0; k < 3 * N / B; k++) {
        mp_feed_batch(feed, k, rows);
        for (int r = 0; r < B; r++) {
            int position = k * B + r;
            assert_true(image[2 * r] == (float)label[r] / 255 && image[2 * r + 1] == image[2 * r]);
            seen[position / N][label[r]]++;
            order[position] = (int)label[r];
        }
    }
    for (int e = 0; e < 3; e++)
        for (int k = 0; k < N; k++) assert_int_equal(seen[e][k], 1);
    assert_true(memcmp(order, order + N, N * sizeof *order) != 0); /* another order every epoch */
    mp_feed_batch(feed, 2, rows);                                  /* any batch by itself */
    for (int r = 0; r < B; r++) assert_int_equal(label[r], order[2 * B + r]);
    mp_feed_free(feed);
    assert_int_equal(mp_feed_open(slots, 2, sources, 2, 6, &feed, &err), MP_OK);
    int same = 0;
    for (int k = 0; k < 2; k++) {
        mp_feed_batch(feed, k, rows);
        for (int r = 0; r < B; r++) same += label[r] == order[k * B + r];
    }
    assert_true(same < 2 * B);
    mp_feed_free(feed);
}

static void misfit(const char *const *sources, size_t n, const char *why)
{
    mp_feed *feed;
    mp_error err = {0};
    assert_int_equal(mp_feed_open(slots, 2, sources, n, 0, &feed, &err), MP_INVALID);
    if (!strstr(err.message, why)) fail_msg("\"%s\" does not say \"%s\"", err.message, why);
}

static void misfits_are_refused_before_training(void **state)
{
    (void)state;
    const uint8_t wide[] = {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3};
    const float number = 1;
    char npy[128] = "\x93NUMPY\x01";
    npy[8] = 59;
    memcpy(npy + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } \n", 59);
    memcpy(npy + 69, &number, 4);
    misfit((const char *[]){image_file(N), label_file(N - 1, 0)}, 2, "6 samples, and another one has 7");
    misfit((const char *[]){image_file(N), label_file(N, 10)}, 2,
           "element 6 is 10, and 'label' takes whole numbers from 0 to 9");
    misfit((const char *[]){image_file(2), label_file(2, 0)}, 2, "there are 2 samples, and a batch takes 3");
    misfit((const char *[]){put("image", wide, sizeof wide)}, 1, "a sample of the file is 3, and 'image' takes 1 x 2");
    misfit((const char *[]){put("label", npy, 73)}, 1, "takes whole numbers, and the file holds float32");
    misfit((const char *[]){image_file(N)}, 1, "there is no data for 'label': --data label=FILE");
    misfit((const char *[]){"picture=x.npy"}, 1, "no data input of that name");
    misfit((const char *[]){image_file(N), "synthetic"}, 2, "not several of them");
    misfit((const char *[]){"vocabulary=x"}, 1, "needs --data text=FILE");
}

static void a_text_gives_windows_and_what_follows(void **state)
{
    (void)state;
    enum { T = 4 };
    const int64_t tokens_dims[] = {2, T}, target_dims[] = {2 * T};
    const mp_feed_slot text[] = {{"tokens", MP_DTYPE_INT64, 2, tokens_dims, 256, false},
                                 {"target", MP_DTYPE_INT32, 1, target_dims, 256, true}};
    const char *corpus = "abcdefghijklmnopqrstuvwxyz";
    const char *sources[] = {put("text", corpus, 26)};
    int64_t tokens[2 * T];
    int32_t target[2 * T];
    void *rows[] = {tokens, target};
    bool seen[26] = {false};
    mp_error err = {0};
    mp_feed *feed;
    assert_int_equal(mp_feed_open(text, 2, sources, 1, 0, &feed, &err), MP_OK);
    assert_int_equal(mp_feed_samples(feed), 22);
    for (int k = 0; k < 11; k++) {
        mp_feed_batch(feed, k, rows);
        for (int e = 0; e < 2 * T; e++)
            assert_true(target[e] == tokens[e] + 1 && (e % T == 0 || tokens[e] == tokens[e - 1] + 1));
        seen[tokens[0] - 'a'] = seen[tokens[T] - 'a'] = true;
    }
    for (int k = 0; k < 22; k++) assert_true(seen[k]);
    mp_feed_free(feed);
}

static void generated_numbers_are_legal_and_repeat(void **state)
{
    (void)state;
    mp_error err = {0};
    mp_feed *feed;
    float image[B * 2], again[B * 2];
    int64_t label[B];
    void *rows[] = {image, label}, *more[] = {again, label};
    assert_int_equal(mp_feed_open(slots, 2, NULL, 0, 9, &feed, &err), MP_OK);
    for (int k = 0; k < 200; k++) {
        mp_feed_batch(feed, k, rows);
        for (int e = 0; e < 2 * B; e++) assert_true(image[e] >= -1 && image[e] < 1);
        for (int e = 0; e < B; e++) assert_true(label[e] >= 0 && label[e] < 10);
    }
    mp_feed_batch(feed, 199, more);
    assert_memory_equal(image, again, sizeof image);
    mp_feed_batch(feed, 198, more);
    assert_true(memcmp(image, again, sizeof image) != 0);
    mp_feed_free(feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_has_every_sample_once),
        cmocka_unit_test(misfits_are_refused_before_training),
        cmocka_unit_test(a_text_gives_windows_and_what_follows),
        cmocka_unit_test(generated_numbers_are_legal_and_repeat),
    };
    static const char *const names[] = {"image", "label", "text"};
    snprintf(folder, sizeof folder, "/tmp/memplan-test-%ld", (long)getpid());
    int failed = cmocka_run_group_tests_name("executor/feed", tests, NULL, NULL);
    for (int k = 0; k < 3; k++) {
        char path[128];
        snprintf(path, sizeof path, "%s.%s", folder, names[k]);
        unlink(path);
    }
    return failed;
}
