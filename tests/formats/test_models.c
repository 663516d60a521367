/* test_models.c - whole models compared with PyTorch: shapes of all tensors, numbers of parameters, forward FLOPs. The model in
 * examples/ is always tested, with values from He et al. 2015 (table 1, 50 layers) and torchvision's documentation. The others
 * are in $DATA, with truth/, and are skipped with a message if missing. */
#include <dirent.h>

#include <jansson.h>

#include "estimator/model/ops.h"
#include "memplan/onnx.h"
#include "tests/cases/data_file.h"
#include "tests/cases/test.h"

/* Reads the model at this batch size; on failure prints the reason and returns NULL. */
static mp_model *load(const char *path, int64_t batch)
{
    mp_model *model = NULL;
    mp_error err = {0};
    if (mp_onnx_read(path, &(mp_onnx_options){.batch = batch}, &model, &err) != MP_OK) {
        print_error("%s: %s\n", path, err.message);
        return NULL;
    }
    return model;
}

static int64_t count_parameters(const mp_model *model)
{
    int64_t n = 0;
    for (size_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].role == MP_ROLE_PARAMETER) n += mp_tensor_elements(&model->tensors[t]);
    return n;
}

static double count_flops(const mp_model *model)
{
    double flops = 0;
    for (size_t k = 0; k < model->n_operators; k++) {
        const mp_operator *op = &model->operators[k];
        if (!op->removed && op->op->flops) flops += op->op->flops(model, op);
    }
    return flops;
}

static void check_shape(const mp_model *model, const char *name, int rank, const int64_t *dims)
{
    int t = mp_model_find(model, name);
    if (t < 0) fail_msg("there is no tensor %s", name);
    assert_int_equal(model->tensors[t].rank, rank);
    for (int d = 0; d < rank; d++) assert_int_equal(model->tensors[t].dims[d], dims[d]);
}

TEST(resnet50_has_the_shapes_parameters_and_flops_of_the_paper)
{
    static const struct {
        const char *name;
        int64_t channels, size;
    } stages[] = {{"/conv1/Conv_output_0", 64, 112},
                  {"/maxpool/MaxPool_output_0", 64, 56},
                  {"/layer1/layer1.2/relu_2/Relu_output_0", 256, 56},
                  {"/layer2/layer2.3/relu_2/Relu_output_0", 512, 28},
                  {"/layer3/layer3.5/relu_2/Relu_output_0", 1024, 14},
                  {"/layer4/layer4.2/relu_2/Relu_output_0", 2048, 7},
                  {"/avgpool/GlobalAveragePool_output_0", 2048, 1}};
    mp_model *model = load("examples/resnet50.onnx", 4);
    assert_non_null(model);
    for (size_t k = 0; k < sizeof stages / sizeof *stages; k++)
        check_shape(model, stages[k].name, 4, (int64_t[]){4, stages[k].channels, stages[k].size, stages[k].size});
    assert_int_equal(model->n_outputs, 1);
    check_shape(model, model->tensors[model->outputs[0]].name, 2, (int64_t[]){4, 1000});
    assert_int_equal(count_parameters(model), 25557032);
    assert_true(fabs(count_flops(model) / 4 - 2 * 4.089e9) < 0.005 * 2 * 4.089e9);
    mp_model_free(model);
}

/* Describes how the tensor differs from [dtype, [dims]]; false: equal. */
static bool differs(const mp_model *model, const char *name, const json_t *expected, char *how, size_t size)
{
    int index = mp_model_find(model, name);
    if (index < 0) return snprintf(how, size, "is missing"), true;
    const mp_tensor *t = &model->tensors[index];
    const json_t *dims = json_array_get(expected, 1);
    static const struct {
        const char *name;
        mp_dtype dtype;
    } dtypes[] = {{"FLOAT", MP_DTYPE_FLOAT},
                  {"INT64", MP_DTYPE_INT64},
                  {"BOOL", MP_DTYPE_BOOL},
                  {"INT32", MP_DTYPE_INT32},
                  {"DOUBLE", MP_DTYPE_DOUBLE}};
    const char *dtype = json_string_value(json_array_get(expected, 0));
    bool same = t->rank == (int)json_array_size(dims), known = false;
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
        if (dtype && !strcmp(dtypes[k].name, dtype)) known = t->dtype == dtypes[k].dtype;
    for (int d = 0; same && d < t->rank; d++) same = t->dims[d] == json_integer_value(json_array_get(dims, (size_t)d));
    if (same && known) return false;
    char *text = json_dumps(expected, JSON_COMPACT);
    int length = snprintf(how, size, "is %s [", mp_dtype_name(t->dtype));
    for (int d = 0; d < t->rank && length < (int)size - 32; d++)
        length += snprintf(how + length, size - (size_t)length, "%s%" PRId64, d ? ", " : "", t->dims[d]);
    snprintf(how + length, size - (size_t)length, "] and should be %s", text);
    free(text);
    return true;
}

/* Compares all tensors of one model with truth/. Returns the number of differences. */
static int check_shapes(const char *of)
{
    const char *path = data_file("truth/shapes/%s.json", of), *model_path;
    json_t *truth = path ? json_load_file(path, 0, NULL) : NULL, *expected;
    assert_non_null(truth);
    assert_non_null(model_path = data_file("models/%s.onnx", of));
    mp_model *model = load(model_path, json_integer_value(json_object_get(truth, "batch")));
    int wrong = model ? 0 : 1;
    const char *name;
    json_object_foreach(json_object_get(truth, "tensors"), name, expected)
    {
        char how[512];
        if (model && differs(model, name, expected, how, sizeof how) && wrong++ < 3)
            print_error("%s: tensor %s %s\n", model_path, name, how);
    }
    mp_model_free(model);
    json_decref(truth);
    return wrong;
}

TEST(every_tensor_has_the_shape_that_pytorch_says)
{
    const char *path = data_file("truth/shapes");
    if (!path) skip();
    DIR *folder = opendir(path);
    assert_non_null(folder);
    int n = 0, wrong = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char *ending = strrchr(entry->d_name, '.');
        if (!ending || strcmp(ending, ".json") != 0) continue;
        *ending = '\0';
        wrong += check_shapes(entry->d_name);
        n++;
    }
    closedir(folder);
    print_message("shapes of %d models compared\n", n);
    assert_int_equal(wrong, 0);
    assert_true(n >= 25);
}

/* The used columns of truth.csv. */
enum { COLUMN_MODEL, COLUMN_BATCH, COLUMN_PARAMETERS = 3, COLUMN_FLOPS = 8, N_COLUMNS };

TEST(parameters_and_flops_are_those_that_pytorch_counts)
{
    const char *path = data_file("truth/truth.csv");
    if (!path) skip();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[1024];
    int n = 0, wrong = 0;
    double worst = 0;
    assert_non_null(fgets(line, sizeof line, file)); /* skips the header */
    while (fgets(line, sizeof line, file)) {
        char *columns[N_COLUMNS], *rest = line;
        for (int k = 0; k < N_COLUMNS; k++) assert_non_null(columns[k] = strsep(&rest, ","));
        assert_non_null(path = data_file("models/%s.onnx", columns[COLUMN_MODEL]));
        mp_model *model = load(path, strtoll(columns[COLUMN_BATCH], NULL, 10));
        n++;
        if (!model) {
            wrong++;
            continue;
        }
        int64_t parameters = count_parameters(model), expected = strtoll(columns[COLUMN_PARAMETERS], NULL, 10);
        double flops = count_flops(model), expected_flops = strtod(columns[COLUMN_FLOPS], NULL);
        double off = fabs(flops - expected_flops) / expected_flops;
        if (off > worst) worst = off;
        if (parameters != expected || off > 0.005) {
            wrong++;
            print_error("%s, batch %s: %" PRId64 " parameters and %.0f FLOPs, not %" PRId64 " and %.0f\n", path,
                        columns[COLUMN_BATCH], parameters, flops, expected, expected_flops);
        }
        mp_model_free(model);
    }
    fclose(file);
    print_message("%d rows of truth.csv compared; FLOPs differ by at most %.3f %%\n", n, 100 * worst);
    assert_int_equal(wrong, 0);
    assert_true(n > 0);
}

TEST(weights_outside_the_file_change_nothing)
{
    const char *path = data_file("models/resnet50_external.onnx");
    if (!path) skip();
    mp_model *external = load(path, 4), *stripped = load("examples/resnet50.onnx", 4);
    assert_non_null(external);
    assert_non_null(stripped);
    assert_int_equal(count_parameters(external), count_parameters(stripped));
    assert_true(count_flops(external) == count_flops(stripped));
    mp_model_free(external);
    mp_model_free(stripped);
}
