/* test_dataset.c - arrays in IDX, .npy and text files. Every truncation and many flipped bytes give an error or a valid array,
 * never a crash. */
#include <unistd.h>

#include "formats/data/dataset.h"
#include "tests/cases/test.h"

static char path[64], other[64];

static void put(const char *to, const void *bytes, size_t n)
{
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

static void refused(const void *bytes, size_t n, const char *why)
{
    mp_dataset d;
    mp_error err = {0};
    put(path, bytes, n);
    assert_int_equal(mp_dataset_open(path, &d, &err), MP_PARSE);
    if (!strstr(err.message, why)) fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    assert_string_equal(err.input, path);
}

/* Two images of 2 x 3 bytes, and two labels of four bytes, in the format of MNIST's files. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 51, 102, 153, 204, 255, 1, 2, 3, 4, 5, 6};
static const uint8_t labels[] = {0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 1, 0, 255, 255, 255, 255};

TEST(idx_is_read)
{
    mp_dataset d;
    mp_error err = {0};
    float pixels[6];
    int64_t numbers[2];
    put(path, images, sizeof images);
    assert_int_equal(mp_dataset_open(path, &d, &err), MP_OK);
    assert_true(d.rank == 3 && d.dims[0] == 2 && d.dims[1] == 2 && d.dims[2] == 3 && d.dtype == MP_DTYPE_UINT8);
    mp_dataset_floats(&d, 0, 6, pixels);
    for (int k = 0; k < 6; k++) assert_true(pixels[k] == (float)(51 * k) / 255);
    mp_dataset_close(&d);
    put(path, labels, sizeof labels);
    assert_int_equal(mp_dataset_open(path, &d, &err), MP_OK);
    mp_dataset_integers(&d, 0, 2, numbers);
    assert_true(numbers[0] == 256 && numbers[1] == -1);
    mp_dataset_close(&d);
}

static size_t make_npy(char *to, const char *dictionary, const void *data, size_t n)
{
    size_t length = strlen(dictionary);
    memcpy(to, "\x93NUMPY\x01\x00", 8);
    to[8] = (char)length;
    to[9] = (char)(length >> 8);
    memcpy(to + 10, dictionary, length);
    memcpy(to + 10 + length, data, n);
    return 10 + length + n;
}

TEST(npy_is_read)
{
    char bytes[256];
    const float values[] = {1.5f, -2, 3, 4, 5, 6};
    const int64_t numbers[] = {7, INT64_C(-8)};
    float back[6];
    mp_dataset d;
    mp_error err = {0};
    put(path, bytes, make_npy(bytes, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", values, sizeof values));
    assert_int_equal(mp_dataset_open(path, &d, &err), MP_OK);
    assert_true(d.rank == 2 && d.dims[0] == 2 && d.dims[1] == 3);
    mp_dataset_floats(&d, 0, 6, back);
    assert_memory_equal(values, back, sizeof values);
    mp_dataset_close(&d);
    put(path, bytes, make_npy(bytes, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n", numbers, sizeof numbers));
    assert_int_equal(mp_dataset_open(path, &d, &err), MP_OK);
    assert_true(d.rank == 1 && mp_dataset_get(&d, 1) == -8);
    mp_dataset_close(&d);
    refused(bytes, make_npy(bytes, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", values, sizeof values),
            "Fortran");
    refused(bytes, make_npy(bytes, "{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }\n", values, sizeof values),
            "elements of type '<c8', which");
    refused(bytes, make_npy(bytes, "{'descr': '<f4', 'fortran_order': False, 'shape': (9, 9), }\n", values, sizeof values),
            "the header states 324 bytes of data, but the file has 24");
}

TEST(what_is_no_dataset_is_refused)
{
    refused("hello, world", 12, "neither");
    refused("\x1f\x8b\x08\x00 compressed", 15, "gzip");
    refused(images, sizeof images - 1, "the header states 12 bytes of data, but the file has 11");
    refused("\0\0\x08\x03\0\0\0\x02", 8, "cut off");
    refused("\0\0\x07\x01\0\0\0\x02", 8, "unknown type");
}

/* For all bytes, opening gives an array inside the file, or an error message. */
TEST(damaged_files_are_never_read_outside)
{
    char npy[256];
    const float values[] = {1, 2, 3, 4, 5, 6};
    size_t n = make_npy(npy, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", values, sizeof values);
    const struct {
        const void *bytes;
        size_t n;
    } files[] = {{images, sizeof images}, {labels, sizeof labels}, {npy, n}};
    for (size_t f = 0; f < 3; f++)
        for (size_t k = 0; k < files[f].n; k++)
            for (int way = 0; way < 3; way++) {
                char damaged[256];
                mp_dataset d;
                mp_error err = {0};
                memcpy(damaged, files[f].bytes, files[f].n);
                if (way) damaged[k] = (char)(way == 1 ? damaged[k] ^ 0x80 : damaged[k] + 1);
                put(path, damaged, way ? files[f].n : k);
                if (mp_dataset_open(path, &d, &err) != MP_OK) {
                    assert_true(err.message[0]);
                    continue;
                }
                int64_t elements = 1;
                for (int r = 0; r < d.rank; r++) elements *= d.dims[r];
                for (int64_t e = 0; e < elements; e++) (void)mp_dataset_get(&d, e);
                mp_dataset_close(&d);
            }
}

TEST(text_becomes_tokens)
{
    mp_dataset d;
    mp_error err = {0};
    put(path, "abcab ca\n", 9);
    assert_int_equal(mp_dataset_open_text(path, NULL, &d, &err), MP_OK);
    assert_true(d.dims[0] == 9 && mp_dataset_get(&d, 1) == 'b');
    mp_dataset_close(&d);
    put(other, "a\nab\nc\nb\n", 9); /* the longest token first: ab c ab, then c, a */
    assert_int_equal(mp_dataset_open_text(path, other, &d, &err), MP_OK);
    const double expected[] = {1, 2, 1, 2, 0};
    assert_int_equal(d.dims[0], 5);
    for (int k = 0; k < 5; k++) assert_true(mp_dataset_get(&d, k) == expected[k]);
    mp_dataset_close(&d);
    put(path, "ab\nax", 5);
    assert_int_equal(mp_dataset_open_text(path, other, &d, &err), MP_PARSE);
    assert_int_equal(err.line, 2);
    err = (mp_error){0};
    put(other, "\n", 1);
    assert_int_equal(mp_dataset_open_text(path, other, &d, &err), MP_PARSE);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/memplan-test-%ld.a", (long)getpid());
    snprintf(other, sizeof other, "/tmp/memplan-test-%ld.b", (long)getpid());
    int failed = test_run(NULL, NULL);
    unlink(path);
    unlink(other);
    return failed;
}
