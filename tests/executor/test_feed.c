/* test_feed.c - batches: the seed orders the samples of an epoch; mismatches are refused before the first batch. */
#include <math.h>
#include <unistd.h>

#include "executor/data/feed.h"
#include "tests/cases/test.h"

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

static const char *npy_file(const char *name, const char *type, const char *shape, const void *values, size_t n_bytes)
{
    char npy[4096] = "\x93NUMPY\x01\x00v";
    memset(npy + 10, ' ', 118);
    npy[10 + snprintf(npy + 10, 117, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape)] = ' ';
    npy[127] = '\n';
    memcpy(npy + 128, values, n_bytes);
    return put(name, npy, 128 + n_bytes);
}

/* Writes an .npy file with the integers 0 to `values` - 1, then repeats the last one. */
static const char *numbers(const char *name, const char *shape, int n, int values)
{
    uint8_t bytes[1024];
    for (int k = 0; k < n; k++) bytes[k] = (uint8_t)(k < values ? k : values - 1);
    return npy_file(name, "|u1", shape, bytes, (size_t)n);
}

/* Image k is {k, k}; its label is k. */
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
static const mp_feed_slot slots[] = {{"image", MP_DTYPE_FLOAT, 3, image_dims, 0, false, false, 0, MP_FEED_RANDOM, 0, false},
                                     {"label", MP_DTYPE_INT64, 1, label_dims, 10, true, false, 0, MP_FEED_RANDOM, 0, false}};

TEST(an_epoch_has_every_sample_once)
{
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
    assert_true(memcmp(order, order + N, N * sizeof *order) != 0); /* each epoch has another order */
    mp_feed_batch(feed, 2, rows);                                  /* any batch can be made alone */
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

TEST(misfits_are_refused_before_training)
{
    const uint8_t wide[] = {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3};
    const float number = 1;
    char npy[128] = "\x93NUMPY\x01";
    npy[8] = 59;
    memcpy(npy + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } \n", 59);
    memcpy(npy + 69, &number, 4);
    misfit((const char *[]){image_file(N), label_file(N - 1, 0)}, 2, "6 samples, but another file has 7");
    misfit((const char *[]){image_file(N), label_file(N, 10)}, 2,
           "element 6 is 10, but 'label' needs whole numbers from 0 to 9");
    misfit((const char *[]){image_file(2), label_file(2, 0)}, 2, "the files have 2 samples, but a batch needs 3");
    misfit((const char *[]){put("image", wide, sizeof wide), label_file(1, 0)}, 2,
           "a sample of the file is 3, but 'image' needs 1 x 2");
    misfit((const char *[]){put("label", npy, 73)}, 1, "needs whole numbers, but the file contains float32");
    misfit((const char *[]){image_file(N)}, 1, "there is no data for 'label'; add --data label=FILE");
    misfit((const char *[]){"picture=x.npy"}, 1, "no data input with this name");
    misfit((const char *[]){image_file(N), "synthetic"}, 2, "choose one of these");
    misfit((const char *[]){"vocabulary=x"}, 1, "needs --data text=FILE");
}

/* Logits (N, T, C) or (N*T, C): one target per position. The target files separate samples, or list only positions. */
TEST(a_target_has_several_numbers_for_a_sample)
{
    enum { T = 3 };
    static const int64_t tokens[] = {2, T}, flat[] = {2 * T};
    static const char *const files[] = {"5, 3", "15,", "15, 1", "5, 3, 1"};
    for (int form = 0; form < 2; form++) {
        const mp_feed_slot text[] = {
            {"tokens", MP_DTYPE_INT64, 2, tokens, 15, false, false, 0, MP_FEED_RANDOM, 0, false},
            {"target", MP_DTYPE_INT64, form ? 1 : 2, form ? flat : tokens, 15, true, false, 0, MP_FEED_RANDOM, 0, false}};
        for (int f = 0; f < 4; f++) {
            const char *sources[] = {numbers("tokens", "5, 3", 15, 15), numbers("target", files[f], 15, 15)};
            int64_t a[2 * T], b[2 * T];
            mp_error err = {0};
            mp_feed *feed;
            if (mp_feed_open(text, 2, sources, 2, 1, &feed, &err) != MP_OK) fail_msg("%s", err.message);
            assert_int_equal(mp_feed_samples(feed), 5);
            assert_int_equal(mp_feed_batch_size(feed), 2);
            int seen[5] = {0};
            for (int k = 0; k < 5; k++) {
                mp_feed_batch(feed, k, (void *[]){a, b});
                assert_memory_equal(a, b, sizeof a);
                for (int e = 0; e < 2 * T; e++) assert_true(a[e] == a[e / T * T] + e % T && a[e / T * T] % T == 0);
                seen[a[0] / T]++, seen[a[T] / T]++;
            }
            for (int k = 0; k < 5; k++) assert_int_equal(seen[k], 2);
            mp_feed_free(feed);
        }
    }
}

/* Files of five samples, in batches of two, for an input of 2 x 3 x 4 numbers, of 24 numbers, or with a single channel. */
TEST(shapes_are_compared_and_not_only_sizes)
{
    static const int64_t picture[] = {2, 2, 3, 4}, list[] = {2, 24}, gray[] = {2, 1, 4, 6}, one[] = {2, 1};
    static const struct {
        const char *file;
        const int64_t *dims;
        int rank;
        bool is_target;
        const char *why; /* NULL: the file is accepted */
    } cases[] = {
        {"5, 2, 3, 4", picture, 4, false, NULL},
        {"5, 2, 1, 3, 4", picture, 4, false, NULL},
        {"5, 3, 4, 2", picture, 4, false,
         "a sample of the file is 3 x 4 x 2, but 'image' needs 2 x 3 x 4; NumPy's transpose(0, 3, 1, 2)"},
        {"5, 3, 2, 4", picture, 4, false, "NumPy's transpose(0, 2, 1, 3) of the array fits"},
        {"2, 3, 4, 5", picture, 4, false, "NumPy's transpose(3, 0, 1, 2) of the array fits"},
        {"5, 24", picture, 4, false,
         "a sample of the file is 24, but 'image' needs 2 x 3 x 4; if the order of the numbers is right, "
         "use NumPy's reshape(-1, 2, 3, 4)"},
        {"5, 2, 12", picture, 4, false, "NumPy's reshape(-1, 2, 3, 4)"},
        {"5, 24", list, 2, false, NULL}, /* a network that flattens images would accept these shapes: */
        {"5, 2, 3, 4", list, 2, false, NULL},
        {"5, 4, 3, 2", list, 2, false, NULL},
        {"5, 4, 6", gray, 4, false, NULL},
        {"5, 4, 6, 1", gray, 4, false, NULL},
        {"5, 6, 4", gray, 4, false, "NumPy's transpose(0, 2, 1)"},
        {"5, 24", gray, 4, false, "NumPy's reshape(-1, 1, 4, 6)"},
        {"5,", one, 2, false, NULL},
        {"5, 1", one, 1, false, NULL},
        {"5, 2, 3, 4", picture, 4, true, NULL},
        {"10, 3, 4", picture, 4, true, NULL}, /* rows one after the other */
        {"5, 3, 4, 2", picture, 4, true, "NumPy's transpose(0, 3, 1, 2)"},
        {"120,", picture, 4, true, "needs 2 x 3 x 4"},
        {"5, 4, 6", list, 2, true, NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const mp_feed_slot some[] = {
            {"image", MP_DTYPE_FLOAT, cases[k].rank, cases[k].dims, 0, cases[k].is_target, false, 0, MP_FEED_RANDOM, 0, false},
            {"label", MP_DTYPE_INT64, 1, one, 200, !cases[k].is_target, false, 0, MP_FEED_RANDOM, 0, false}};
        int n = 1;
        for (const char *at = cases[k].file; *at; at += *at ? strspn(at, ", ") : 0) n *= (int)strtol(at, (char **)&at, 10);
        const char *sources[] = {numbers("image", cases[k].file, n, 200), numbers("label", "5,", 5, 9)};
        mp_error err = {0};
        mp_feed *feed = NULL;
        const mp_status st = mp_feed_open(some, 2, sources, 2, 0, &feed, &err);
        if (st != (cases[k].why ? MP_INVALID : MP_OK) || (cases[k].why && !strstr(err.message, cases[k].why)))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[k].file, err.message, cases[k].why ? cases[k].why : "");
        if (!cases[k].why) { /* a sample's numbers are in file order, the last one included */
            float image[48];
            int64_t label[2];
            const int64_t size = n / 5;
            mp_feed_batch(feed, 0, (void *[]){image, label});
            for (int row = 0; row < 2; row++)
                for (int64_t e = 0; e < size; e++) assert_true(image[row * size + e] == (float)(label[row] * size + e) / 255);
        }
        mp_feed_free(feed);
    }
}

/* The ignored label is not a class, but is accepted. */
TEST(the_ignored_label_is_legal)
{
    mp_feed_slot some[] = {slots[0], slots[1]};
    const char *sources[] = {image_file(N), label_file(N, 200)};
    mp_error err = {0};
    mp_feed *feed;
    some[1].ignores = true;
    some[1].ignored = 200;
    assert_int_equal(mp_feed_open(some, 2, sources, 2, 0, &feed, &err), MP_OK);
    mp_feed_free(feed);
    some[1].ignored = 201;
    assert_int_equal(mp_feed_open(some, 2, sources, 2, 0, &feed, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "is 200"));
}

/* A graph of four nodes and three edges. Edges are the first slot, and their first dimension is not the batch. */
static const int64_t edges_dims[] = {2, 3}, nodes_dims[] = {4, 2}, classes_dims[] = {4}, scale_dims[] = {1, 2};
static const mp_feed_slot graph[] = {{"edges", MP_DTYPE_INT64, 2, edges_dims, 0, false, false, 0, MP_FEED_RANDOM, 0, false},
                                     {"nodes", MP_DTYPE_INT64, 2, nodes_dims, 0, false, false, 0, MP_FEED_RANDOM, 0, false},
                                     {"scale", MP_DTYPE_INT64, 2, scale_dims, 0, false, false, 0, MP_FEED_RANDOM, 0, false},
                                     {"classes", MP_DTYPE_INT64, 1, classes_dims, 0, true, false, 0, MP_FEED_RANDOM, 0, false}};

static mp_status open_graph(const char *edges, const char *nodes, const char *scale, const char *classes, mp_feed **feed,
                            mp_error *err)
{
    const char *const names[] = {"edges", "nodes", "scale", "classes"}, *shapes[] = {edges, nodes, scale, classes}, *sources[4];
    for (int k = 0; k < 4; k++) {
        int n = 1;
        for (const char *at = shapes[k]; *at; at += *at ? strspn(at, ", ") : 0) n *= (int)strtol(at, (char **)&at, 10);
        sources[k] = numbers(names[k], shapes[k], n, 100);
    }
    return mp_feed_open(graph, 4, sources, 4, 3, feed, err);
}

/* Rows of a graph's nodes are not samples: their order and number must stay. */
TEST(a_graph_is_given_whole)
{
    int64_t edges[6], nodes[8], scale[2], classes[4];
    void *rows[] = {edges, nodes, scale, classes};
    mp_error err = {0};
    mp_feed *feed;
    if (open_graph("2, 3", "4, 2", "2,", "4,", &feed, &err) != MP_OK) fail_msg("%s", err.message);
    for (int batch = 0; batch < 6; batch++) {
        memset(nodes, 0xff, sizeof nodes);
        mp_feed_batch(feed, batch, rows);
        for (int k = 0; k < 6; k++) assert_int_equal(edges[k], k);
        for (int k = 0; k < 8; k++) assert_int_equal(nodes[k], k);
        for (int k = 0; k < 4; k++) assert_int_equal(classes[k], k);
        assert_true(scale[0] == 0 && scale[1] == 1);
    }
    assert_int_equal(mp_feed_batches(feed), 1);
    mp_feed_free(feed);
    static const struct {
        const char *edges, *nodes, *scale, *classes, *file, *why;
    } misfits[] = {
        {"2, 3", "8, 2", "1, 2", "8,", "nodes", "'edges' has no batch dimension, so 'nodes' needs 4 rows, not 8"},
        {"3, 2", "4, 2", "1, 2", "4,", "edges", "the file is 3 x 2, but 'edges', which has no batch dimension, needs 2 x 3"},
        {"5, 2, 3", "4, 4, 2", "1, 2", "5, 4", "nodes", "the file has 4 samples, but another file has 5"},
        {"5, 2, 3", "8, 2", "1, 2", "5, 4", "nodes", "another file is a stack of whole inputs"},
        {"2, 3", "4, 2", "1, 2", "5,", "classes", "the file has 5 samples, but another file has 4"},
    };
    for (size_t k = 0; k < sizeof misfits / sizeof *misfits; k++) {
        err = (mp_error){0};
        assert_int_equal(open_graph(misfits[k].edges, misfits[k].nodes, misfits[k].scale, misfits[k].classes, &feed, &err),
                         MP_INVALID);
        assert_non_null(strstr(err.input, misfits[k].file));
        if (!strstr(err.message, misfits[k].why)) fail_msg("\"%s\" does not say \"%s\"", err.message, misfits[k].why);
    }
}

/* Five graphs with equal edges, one per batch, each once per epoch. */
TEST(graphs_are_stacked)
{
    int64_t edges[6], nodes[8], scale[2], classes[4];
    void *rows[] = {edges, nodes, scale, classes};
    int seen[5] = {0};
    mp_error err = {0};
    mp_feed *feed;
    if (open_graph("2, 3", "5, 4, 2", "5, 2", "5, 4", &feed, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(mp_feed_samples(feed), 5);
    assert_int_equal(mp_feed_batches(feed), 5);
    for (int batch = 0; batch < 10; batch++) {
        mp_feed_batch(feed, batch, rows);
        const int64_t g = nodes[0] / 8;
        seen[g]++;
        for (int k = 0; k < 6; k++) assert_int_equal(edges[k], k);
        for (int k = 0; k < 8; k++) assert_int_equal(nodes[k], 8 * g + k);
        for (int k = 0; k < 4; k++) assert_int_equal(classes[k], 4 * g + k);
        for (int k = 0; k < 2; k++) assert_int_equal(scale[k], 2 * g + k);
    }
    for (int g = 0; g < 5; g++) assert_int_equal(seen[g], 2);
    mp_feed_free(feed);
}

/* A tensor broadcast along the batch accepts any number of samples. */
TEST(one_row_is_shared_by_all_samples)
{
    const mp_feed_slot some[] = {graph[2], graph[1]};
    const char *sources[] = {numbers("scale", "1, 2", 2, 9), numbers("nodes", "9, 2", 18, 99)};
    int64_t nodes[8], scale[2];
    mp_error err = {0};
    mp_feed *feed;
    if (mp_feed_open(some, 2, sources, 2, 0, &feed, &err) != MP_OK) fail_msg("%s", err.message);
    assert_int_equal(mp_feed_samples(feed), 9);
    assert_int_equal(mp_feed_batch_size(feed), 4);
    for (int batch = 0; batch < 4; batch++) {
        mp_feed_batch(feed, batch, (void *[]){scale, nodes});
        assert_true(scale[0] == 0 && scale[1] == 1);
        for (int k = 0; k < 4; k++) assert_true(nodes[2 * k] % 2 == 0 && nodes[2 * k + 1] == nodes[2 * k] + 1);
    }
    mp_feed_free(feed);
}

TEST(a_text_gives_windows_and_what_follows)
{
    enum { T = 4 };
    const int64_t tokens_dims[] = {2, T}, target_dims[] = {2 * T};
    const mp_feed_slot text[] = {{"tokens", MP_DTYPE_INT64, 2, tokens_dims, 256, false, false, 0, MP_FEED_RANDOM, 0, false},
                                 {"target", MP_DTYPE_INT32, 1, target_dims, 256, true, false, 0, MP_FEED_RANDOM, 0, false}};
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
    const int64_t turned_dims[] = {T, 2};
    const mp_feed_slot turned[] = {text[0],
                                   {"target", MP_DTYPE_INT32, 2, turned_dims, 256, true, false, 0, MP_FEED_RANDOM, 0, false}};
    assert_int_equal(mp_feed_open(turned, 2, sources, 1, 0, &feed, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "'target' has other dimensions than 'tokens'"));
}

TEST(generated_numbers_are_legal_and_repeat)
{
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

/* Masks contain one constant. Positions ascend and restart at the end of their table. */
TEST(what_an_input_is_for_decides_its_numbers)
{
    static const int64_t dims[] = {2, 4};
    static const mp_feed_slot known[] = {
        {.name = "mask", .dtype = MP_DTYPE_INT64, .rank = 2, .dims = dims, .fill = MP_FEED_FIXED, .fixed = 1},
        {.name = "seen", .dtype = MP_DTYPE_BOOL, .rank = 2, .dims = dims, .fill = MP_FEED_FIXED, .fixed = 1},
        {.name = "low", .dtype = MP_DTYPE_FLOAT, .rank = 2, .dims = dims, .fill = MP_FEED_FIXED, .fixed = -2},
        {.name = "at", .dtype = MP_DTYPE_INT32, .rank = 2, .dims = dims, .n_values = 3, .fill = MP_FEED_ASCENDING}};
    static const int32_t ascending[] = {0, 1, 2, 0, 0, 1, 2, 0};
    mp_error err = {0};
    mp_feed *feed;
    int64_t mask[8];
    uint8_t seen[8];
    float low[8];
    int32_t at[8];
    assert_int_equal(mp_feed_open(known, 4, NULL, 0, 3, &feed, &err), MP_OK);
    mp_feed_batch(feed, 5, (void *const[]){mask, seen, low, at});
    for (int k = 0; k < 8; k++) {
        assert_int_equal(mask[k], 1);
        assert_int_equal(seen[k], 1);
        assert_true(low[k] == -2);
        assert_int_equal(at[k], ascending[k]);
    }
    mp_feed_free(feed);
}

enum { FAULTY = 4 }; /* samples of 2 x 3 numbers in batches of one */

/* One element in four samples is not finite. `is_mask`: the input is a mask, where infinities are intended. */
TEST(a_number_that_spoils_the_loss_is_found_by_file_and_row)
{
    static const int64_t dims[] = {1, 2, 3}, label_of_one[] = {1};
    static const struct {
        double value;
        int64_t sample, at;
        bool is_mask;
        const char *why; /* NULL: no fault */
    } cases[] = {{NAN, 0, 0, false, "data of 'image', has nan at [0, 0]"},
                 {NAN, 3, 5, false, "data of 'image', has nan at [1, 2]"},
                 {NAN, 2, 1, true, "has nan at [0, 1]"},
                 {INFINITY, 1, 3, false, "has inf at [1, 0]"},
                 {-INFINITY, 1, 3, false, "has -inf at [1, 0]"},
                 {-INFINITY, 1, 3, true, NULL},
                 {1e300, 2, 4, false, "has 1e+300 (too large for float32) at [1, 1]"},
                 {3e38, 2, 4, false, NULL}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double values[FAULTY * 6] = {0};
        char row[32], text[MP_FEED_FAULT_TEXT] = "";
        int n_found = 0;
        const mp_feed_slot some[] = {
            {"image", MP_DTYPE_FLOAT, 3, dims, 0, false, false, 0, cases[k].is_mask ? MP_FEED_FIXED : MP_FEED_RANDOM, 0, false},
            {"label", MP_DTYPE_INT64, 1, label_of_one, 10, true, true, 9, MP_FEED_RANDOM, 0, false}};
        values[cases[k].sample * 6 + cases[k].at] = cases[k].value;
        const char *sources[] = {npy_file("image", "<f8", "4, 2, 3", values, sizeof values), numbers("label", "4,", FAULTY, 9)};
        mp_error err = {0};
        mp_feed *feed;
        assert_int_equal(mp_feed_open(some, 2, sources, 2, 7, &feed, &err), MP_OK);
        for (int b = 0; b < FAULTY; b++) { /* an epoch's batches contain every sample once */
            float image[6];
            int64_t label;
            bool spoils = false;
            mp_feed_batch(feed, b, (void *[]){image, &label});
            for (int e = 0; e < 6; e++) spoils |= !isfinite(image[e]);
            const bool found = mp_feed_find_fault(feed, b, text);
            assert_int_equal(found, spoils && cases[k].why);
            n_found += found;
        }
        snprintf(row, sizeof row, "row %d of '", (int)cases[k].sample);
        assert_int_equal(n_found, cases[k].why != NULL);
        if (cases[k].why && (!strstr(text, cases[k].why) || strncmp(text, row, strlen(row)) != 0 || !strstr(text, folder)))
            fail_msg("case %zu: %s", k, text);
        mp_feed_free(feed);
    }
}

/* A batch with only ignored labels is reported. A file with only ignored labels is refused. */
TEST(labels_that_are_all_ignored_are_told)
{
    mp_feed_slot some[] = {slots[0], slots[1]};
    const char *sources[] = {image_file(N), label_file(N, 200)};
    char text[MP_FEED_FAULT_TEXT];
    mp_error err = {0};
    mp_feed *feed;
    some[1].ignores = true;
    some[1].ignored = 200; /* one label of seven is ignored; a batch has three */
    assert_int_equal(mp_feed_open(some, 2, sources, 2, 0, &feed, &err), MP_OK);
    for (int b = 0; b < N; b++) assert_false(mp_feed_find_fault(feed, b, text));
    mp_feed_free(feed);
    static const int64_t one_image[] = {1, 1, 2}, one_label[] = {1};
    int n_found = 0;
    some[0].dims = one_image;
    some[1].dims = one_label; /* a batch of one */
    assert_int_equal(mp_feed_open(some, 2, sources, 2, 0, &feed, &err), MP_OK);
    for (int b = 0; b < N; b++) n_found += mp_feed_find_fault(feed, b, text);
    assert_int_equal(n_found, 1);
    assert_non_null(strstr(text, "all labels of this batch in '"));
    mp_feed_free(feed);
    sources[1] = numbers("label", "7,", N, 1);
    for (int values = 0; values < 2; values++) { /* also for a loss with an unknown number of classes */
        some[1].ignored = 0;
        some[1].n_values = values ? 10 : 0;
        assert_int_equal(mp_feed_open(some, 2, sources, 2, 0, &feed, &err), MP_INVALID);
        assert_non_null(strstr(err.message, "all 7 labels of 'label' are 0, which the loss ignores"));
    }
}

int main(void)
{
    static const char *const names[] = {"image", "label", "text", "tokens", "target", "edges", "nodes", "scale", "classes"};
    snprintf(folder, sizeof folder, "/tmp/memplan-test-%ld", (long)getpid());
    int failed = test_run(NULL, NULL);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[128];
        snprintf(path, sizeof path, "%s.%s", folder, names[k]);
        unlink(path);
    }
    return failed;
}
