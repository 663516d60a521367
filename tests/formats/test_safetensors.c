/* test_safetensors.c - saved tensors: written files read back equal; truncations and flipped bytes give a message; a full disk
 * loses no data. */
#include <unistd.h>

#include "formats/data/safetensors.h"
#include "formats/onnx/onnx_weights.h"
#include "tests/cases/test.h"

static char path[64];

static const float floats[] = {1, 2.5f, -3, 4, 5, 6};
static const int64_t numbers[] = {-7, INT64_MAX};
static const int64_t two_three[] = {2, 3}, two[] = {2};
static const mp_named_tensor tensors[] = {{"layer.0/weight", MP_DTYPE_FLOAT, 2, two_three, floats},
                                          {"\xc3\xbc \"quoted\"", MP_DTYPE_INT64, 1, two, numbers},
                                          {"scalar", MP_DTYPE_FLOAT, 0, NULL, floats + 1},
                                          {"nothing", MP_DTYPE_FLOAT, 1, (const int64_t[]){0}, floats}};
static const mp_metadatum metadata[] = {{"step", "12"}, {"note", "a \"b\""}};

TEST(what_is_written_comes_back)
{
    mp_error err = {0};
    mp_safetensors *s;
    assert_int_equal(mp_safetensors_write(path, tensors, 4, metadata, 2, &err), MP_OK);
    assert_int_equal(mp_safetensors_open(path, &s, &err), MP_OK);
    for (int k = 0; k < 4; k++) {
        const mp_named_tensor *t = mp_safetensors_find(s, tensors[k].name);
        int64_t n = 1;
        assert_non_null(t);
        assert_true(t->dtype == tensors[k].dtype && t->rank == tensors[k].rank);
        for (int d = 0; d < t->rank; d++) {
            assert_int_equal(t->dims[d], tensors[k].dims[d]);
            n *= t->dims[d];
        }
        assert_memory_equal(t->data, tensors[k].data, (size_t)n * (size_t)mp_dtype_bits(t->dtype) / 8);
    }
    assert_null(mp_safetensors_find(s, "layer.1/weight"));
    assert_string_equal(mp_safetensors_metadatum(s, "step"), "12");
    assert_string_equal(mp_safetensors_metadatum(s, "note"), "a \"b\"");
    assert_null(mp_safetensors_metadatum(s, "seed"));
    mp_safetensors_close(s);
}

TEST(damaged_files_are_never_read_outside)
{
    mp_error err = {0};
    char bytes[1024];
    assert_int_equal(mp_safetensors_write(path, tensors, 4, metadata, 2, &err), MP_OK);
    FILE *file = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(n > 200 && n < sizeof bytes);
    for (size_t k = 0; k < n; k++)
        for (int way = 0; way < 4; way++) {
            char damaged[1024];
            mp_safetensors *s = NULL;
            err = (mp_error){0};
            memcpy(damaged, bytes, n);
            if (way) damaged[k] = (char)(way == 1 ? damaged[k] ^ 0x80 : way == 2 ? damaged[k] + 1 : '9');
            file = fopen(path, "wb");
            fwrite(damaged, 1, way ? n : k, file);
            fclose(file);
            mp_status st = mp_safetensors_open(path, &s, &err);
            assert_true(way || st == MP_PARSE); /* every truncated file is refused */
            const mp_named_tensor *t = st == MP_OK ? mp_safetensors_find(s, "layer.0/weight") : NULL;
            double sum = 0;
            for (int e = 0; t && t->rank == 2 && e < t->dims[0] * t->dims[1]; e++) sum += ((const char *)t->data)[e];
            assert_true(sum == sum && (st == MP_OK || err.message[0]));
            mp_safetensors_close(s);
        }
}

static void refused(const char *header, size_t data, const char *why)
{
    char bytes[512] = {0};
    mp_error err = {0};
    mp_safetensors *s;
    bytes[0] = (char)strlen(header);
    memcpy(bytes + 8, header, strlen(header));
    FILE *file = fopen(path, "wb");
    fwrite(bytes, 1, 8 + strlen(header) + data, file);
    fclose(file);
    assert_int_equal(mp_safetensors_open(path, &s, &err), MP_PARSE);
    if (!strstr(err.message, why)) fail_msg("\"%s\" does not say \"%s\"", err.message, why);
}

TEST(contradictions_are_refused)
{
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
            "has 4 bytes of data, but its shape needs 8");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "outside the file");
    refused("{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown type F99");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
            "offsets\":[1,3]}}",
            3, "overlap");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 3, "behind its last tensor");
    refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[-2],\"data_offsets\":[0,2]}}", 2, "no proper shape");
    refused("[1]", 0, "not a JSON object");
}

TEST(a_full_disk_is_an_error_and_leaves_the_old_file)
{
    mp_error err = {0};
    mp_safetensors *s;
    assert_int_equal(mp_safetensors_write("/dev/full", tensors, 4, metadata, 2, &err), MP_IO);
    assert_non_null(strstr(err.message, "No space left"));
    err = (mp_error){0};
    assert_int_equal(mp_safetensors_write(path, tensors, 4, metadata, 2, &err), MP_OK);
    assert_int_equal(mp_safetensors_write("/nowhere/at/all", tensors, 4, metadata, 2, &err), MP_IO);
    assert_int_equal(mp_safetensors_open(path, &s, &err), MP_OK);
    mp_safetensors_close(s);
}

/* The weights inside a model file equal PyTorch's: both files are from one run. */
TEST(weights_of_a_model_file_are_read)
{
    mp_error err = {0};
    mp_onnx_weights *w;
    float weight[24 * 12], wrong[3];
    double sum = 0;
    assert_int_equal(mp_onnx_weights_open("tests/gradients/mlp.onnx", NULL, &w, &err), MP_OK);
    assert_true(mp_onnx_weights_have(w, "layers.0.weight") && !mp_onnx_weights_have(w, "layers.9.weight"));
    assert_int_equal(mp_onnx_weights_read(w, "layers.0.weight", MP_DTYPE_FLOAT, 24 * 12, weight, &err), MP_OK);
    for (int k = 0; k < 24 * 12; k++) {
        assert_true(weight[k] >= -0.2887f &&
                    weight[k] <= 0.2887f); /* within 1 / sqrt(12), the range of nn.Linear's initialization */
        sum += (double)(weight[k] * weight[k]);
    }
    assert_true(sum > 24 * 12 * 0.015 && sum < 24 * 12 * 0.045);
    mp_onnx_weights *gpt;
    float mask[64 * 64];
    assert_int_equal(mp_onnx_weights_open("examples/gpt_bytes.onnx", NULL, &gpt, &err), MP_OK);
    assert_int_equal(mp_onnx_weights_read(gpt, "/layers.0/Constant_7_output_0", MP_DTYPE_FLOAT, 64 * 64, mask, &err), MP_OK);
    for (int k = 0; k < 64 * 64; k++) assert_true(mask[k] == (k % 64 > k / 64 ? -1e9f : 0)); /* the tensor of a Constant node */
    mp_onnx_weights_close(gpt);
    assert_int_equal(mp_onnx_weights_read(w, "layers.0.weight", MP_DTYPE_FLOAT, 3, wrong, &err), MP_INVALID);
    assert_non_null(strstr(err.message, "layers.0.weight"));
    err = (mp_error){0};
    assert_int_equal(mp_onnx_weights_read(w, "layers.0.weight", MP_DTYPE_INT64, 24 * 12, weight, &err), MP_INVALID);
    mp_onnx_weights_close(w);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/memplan-test-%ld.safetensors", (long)getpid());
    int failed = test_run(NULL, NULL);
    unlink(path);
    return failed;
}
