/* test_onnx.c - models read from valid ONNX files. Expected numbers are PyTorch's (examples/) or counted by hand. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cases/onnx_builder.h"

#include "estimator/base/memory.h"
#include "estimator/model/model.h"
#include "tests/cases/test.h"

enum { FLOAT = 1, INT8 = 3, INT32 = 6, INT64 = 7, BOOL = 9, HALF = 10, DOUBLE = 11, BFLOAT = 16, INT4 = 22 };

static mp_model *read_file(const char *path, int64_t batch)
{
    mp_error err = {0};
    mp_model *model = NULL;
    const mp_onnx_options options = {.batch = batch};
    if (mp_onnx_read(path, &options, &model, &err) != MP_OK) fail_msg("%s: %s", path, err.message);
    return model;
}

static int64_t elements_of_role(const mp_model *model, mp_role role, int *n)
{
    int64_t elements = 0;
    *n = 0;
    for (size_t k = 0; k < model->n_tensors; k++) {
        if (model->tensors[k].role != role) continue;
        assert_non_null(model->tensors[k].role_reason);
        elements += mp_tensor_elements(&model->tensors[k]);
        (*n)++;
    }
    return elements;
}

static void assert_dims(const mp_model *model, const char *name, int rank, ...)
{
    const mp_tensor *t = onnx_find(model, name);
    va_list args;
    va_start(args, rank);
    assert_int_equal(t->rank, rank);
    for (int k = 0; k < rank; k++) assert_int_equal(t->dims[k], va_arg(args, int));
    va_end(args);
}

TEST(stripped_mlp_has_its_parameters_among_the_inputs)
{
    int n;
    mp_model *model = read_file("examples/mlp4.onnx", 4);
    assert_string_equal(model->name, "mlp4");
    assert_string_equal(model->path, "examples/mlp4.onnx");
    assert_int_equal(elements_of_role(model, MP_ROLE_PARAMETER, &n), 2904065);
    assert_int_equal(n, 8);
    assert_role(model, "input", "data");
    assert_role(model, "target", "data");
    assert_dims(model, "input", 2, 4, 784);
    assert_dims(model, "loss", 0);
    mp_model_free(model);
}

TEST(resnet50_has_parameters_and_running_statistics)
{
    int n;
    mp_model *model = read_file("examples/resnet50.onnx", 4);
    assert_int_equal(elements_of_role(model, MP_ROLE_PARAMETER, &n), 25557032);
    assert_int_equal(n, 161);
    assert_int_equal(elements_of_role(model, MP_ROLE_BUFFER, &n), 53120);
    assert_int_equal(n, 106);
    assert_dims(model, "output", 2, 4, 1000);
    assert_true(onnx_find(model, "output")->is_output);
    mp_model_free(model);
}

/* x[N,2] * w + b, where w and b are initializers. */
static void start_linear(onnx_builder *b)
{
    static const float weights[6] = {1, 2, 3, 4, 5, 6};
    onnx_start(b);
    onnx_input(b, "x", FLOAT, "N,2");
    onnx_raw(onnx_initializer(b, "w", FLOAT, "2,3"), weights, sizeof weights);
    onnx_initializer(b, "b", FLOAT, "3");
    onnx_node(b, "Gemm", "dense", "x,w,b", "y");
    onnx_output(b, "y", FLOAT, "N,3");
}

TEST(weights_are_parameters_without_values)
{
    onnx_builder b;
    start_linear(&b);
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.batch = 5});
    assert_role(model, "w", "parameter");
    assert_role(model, "b", "parameter");
    assert_null(onnx_find(model, "w")->value);
    assert_dims(model, "y", 2, 5, 3);
    assert_int_equal(onnx_find(model, "y")->declared_dims[0], 5);
    assert_int_equal(model->n_inputs, 1);
    mp_model_free(model);
    onnx_end(&b);
}

TEST(external_data_is_never_opened)
{
    onnx_builder b;
    start_linear(&b);
    static char location[] = "location", file[] = "../../no/such/file", length[] = "length", bytes[] = "24";
    Onnx__StringStringEntryProto where = ONNX__STRING_STRING_ENTRY_PROTO__INIT, size = where;
    Onnx__StringStringEntryProto *entries[] = {&where, &size};
    Onnx__TensorProto *w = b.graph.initializer[0];
    where.key = location;
    where.value = file;
    size.key = length;
    size.value = bytes;
    w->has_raw_data = 0;
    w->has_data_location = 1;
    w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    w->n_external_data = 2;
    w->external_data = entries;
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.batch = 5});
    assert_role(model, "w", "parameter");
    mp_model_free(model);
    bytes[0] = '3';
    onnx_refused(&b, &(mp_onnx_options){.batch = 5}, MP_PARSE, "'w',34,24");
    bytes[0] = 'x';
    onnx_refused(&b, &(mp_onnx_options){.batch = 5}, MP_PARSE, "'w',length,x4");
    w->n_external_data = 0;
    onnx_refused(&b, &(mp_onnx_options){.batch = 5}, MP_PARSE, "'w',name is missing");
    onnx_end(&b);
}

/* Values of every type, raw and typed, as constants usable in shapes. */
TEST(small_values_are_decoded)
{
    static const uint8_t int8[] = {0xff, 0x7f}, int4[] = {0x8f, 0x07}, half[] = {0x00, 0xbc, 0x01, 0x00, 0x00, 0x7c},
                         bfloat[] = {0x80, 0x3f}, int64[] = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                         real[] = {0, 0, 0, 0, 0, 0, 0xf8, 0xbf};
    static int32_t typed[] = {-7, 1, 0x3c00};
    static float single[] = {0.5f};
    static uint64_t wide[] = {1ull << 40};
    onnx_builder b;
    onnx_start(&b);
    onnx_raw(onnx_initializer(&b, "int8", INT8, "2"), int8, 2);
    onnx_raw(onnx_initializer(&b, "int4", INT4, "3"), int4, 2);
    onnx_raw(onnx_initializer(&b, "half", HALF, ""), half, 2);
    onnx_raw(onnx_initializer(&b, "bfloat", BFLOAT, ""), bfloat, 2);
    onnx_raw(onnx_initializer(&b, "int64", INT64, ""), int64, 8);
    onnx_raw(onnx_initializer(&b, "real", DOUBLE, ""), real, 8);
    Onnx__TensorProto *t = onnx_initializer(&b, "int32", INT32, "2");
    t->n_int32_data = 2;
    t->int32_data = typed;
    t = onnx_initializer(&b, "typed half", HALF, "");
    t->n_int32_data = 1;
    t->int32_data = typed + 2;
    t = onnx_initializer(&b, "bool", BOOL, "2");
    t->n_int32_data = 2;
    t->int32_data = typed;
    t = onnx_initializer(&b, "single", FLOAT, "");
    t->n_float_data = 1;
    t->float_data = single;
    t = onnx_initializer(&b, "uint64", 13, "1");
    t->n_uint64_data = 1;
    t->uint64_data = wide;
    onnx_initializer(&b, "empty", INT64, "0");
    onnx_input(&b, "x", FLOAT, "1");
    onnx_node(&b, "Relu", "", "x", "y");
    onnx_output(&b, "y", FLOAT, "1");
    mp_model *model = onnx_load(&b, NULL);
    assert_int_equal(onnx_find(model, "int8")->value->i[0], -1);
    assert_int_equal(onnx_find(model, "int8")->value->i[1], 127);
    assert_int_equal(onnx_find(model, "int4")->value->i[0], -1);
    assert_int_equal(onnx_find(model, "int4")->value->i[1], -8);
    assert_int_equal(onnx_find(model, "int4")->value->i[2], 7);
    assert_true(onnx_find(model, "half")->value->f[0] == -1.0);
    assert_true(onnx_find(model, "typed half")->value->f[0] == 1.0);
    assert_true(onnx_find(model, "bfloat")->value->f[0] == 1.0);
    assert_true(onnx_find(model, "real")->value->f[0] == -1.5);
    assert_true(onnx_find(model, "single")->value->f[0] == 0.5);
    assert_int_equal(onnx_find(model, "int64")->value->i[0], -2);
    assert_int_equal(onnx_find(model, "int32")->value->i[0], -7);
    assert_int_equal(onnx_find(model, "bool")->value->i[0], 1);
    assert_int_equal(onnx_find(model, "uint64")->value->i[0], 1ll << 40);
    assert_int_equal(onnx_find(model, "empty")->value->n, 0);
    mp_model_free(model);
    onnx_raw(b.graph.initializer[2], half + 2, 2); /* the smallest subnormal */
    model = onnx_load(&b, NULL);
    assert_true(onnx_find(model, "half")->value->f[0] == ldexp(1, -24));
    mp_model_free(model);
    onnx_raw(b.graph.initializer[2], half + 4, 2);
    model = onnx_load(&b, NULL);
    assert_true(isinf(onnx_find(model, "half")->value->f[0]));
    mp_model_free(model);
    onnx_end(&b);
}

TEST(a_computed_shape_is_folded)
{
    static int64_t shape[] = {-1, 6};
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "N,3,2");
    Onnx__NodeProto *node = onnx_node(&b, "Constant", "", "", "shape");
    Onnx__AttributeProto *a = onnx_attribute(&b, node, "value_ints", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    a->n_ints = 2;
    a->ints = shape;
    onnx_node(&b, "Reshape", "", "x,shape", "y");
    onnx_output(&b, "y", FLOAT, "M,6");
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.batch = 7});
    assert_dims(model, "y", 2, 7, 6);
    assert_int_equal(onnx_find(model, "y")->declared_dims[0], -1);
    mp_model_free(model);
    onnx_end(&b);
}

TEST(sparse_weights_have_a_shape)
{
    onnx_builder b;
    static int64_t dims[] = {2, 3};
    Onnx__SparseTensorProto sparse = ONNX__SPARSE_TENSOR_PROTO__INIT;
    start_linear(&b);
    sparse.values = onnx_tensor(&b, "w", FLOAT, "4");
    sparse.n_dims = 2;
    sparse.dims = dims;
    b.graph.n_initializer = 1;
    b.graph.initializer[0] = b.graph.initializer[1];
    onnx_push(&b, &b.graph.n_sparse_initializer, &b.graph.sparse_initializer, &sparse);
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.batch = 5});
    assert_role(model, "w", "parameter");
    assert_dims(model, "w", 2, 2, 3);
    mp_model_free(model);
    onnx_end(&b);
}

TEST(dimensions_are_bound_by_name)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "ids", INT64, "batch,length");
    onnx_input(&b, "mask", FLOAT, "length,batch");
    onnx_input(&b, "image", FLOAT, "-1,3,?,-");
    onnx_node(&b, "Cast", "", "ids", "y");
    onnx_int(&b, b.graph.node[0], "to", FLOAT);
    onnx_node(&b, "Transpose", "", "mask", "z");
    onnx_node(&b, "Relu", "", "image", "r");
    onnx_output(&b, "y", FLOAT, "batch,length");
    onnx_output(&b, "z", FLOAT, "batch,length");
    onnx_output(&b, "r", FLOAT, "");
    const mp_dimension sizes[] = {{"length", 9}, {"image[2]", 5}, {"image[3]", 6}, {"batch", 2}};
    mp_onnx_options options = {.batch = 2, .dimensions = sizes, .n_dimensions = 3};
    mp_model *model = onnx_load(&b, &options);
    assert_dims(model, "y", 2, 2, 9);
    assert_dims(model, "z", 2, 2, 9);
    assert_dims(model, "r", 4, 2, 3, 5, 6);
    mp_model_free(model);
    options.n_dimensions = 4; /* equal to --batch */
    mp_model_free(onnx_load(&b, &options));
    options.batch = 3;
    onnx_refused(&b, &options, MP_INVALID, "--batch 3,batch=2");
    options.n_dimensions = 2;
    onnx_refused(&b, &options, MP_PARSE, "'image[3]',axis 3,--dim");
    options.n_dimensions = 0;
    onnx_refused(&b, &options, MP_PARSE, "'length',axis 1,'ids',--dim length=SIZE");
    options.batch = 0;
    onnx_refused(&b, &options, MP_PARSE, "'batch',axis 0,'ids',--batch SIZE");
    const mp_dimension wrong[] = {{"width", 9}}, zero[] = {{"length", 0}}, twice[] = {{"length", 1}, {"length", 2}};
    onnx_refused(&b, &(mp_onnx_options){.dimensions = wrong, .n_dimensions = 1}, MP_INVALID, "'width','batch','length'");
    onnx_refused(&b, &(mp_onnx_options){.dimensions = zero, .n_dimensions = 1}, MP_INVALID, "length=0");
    onnx_refused(&b, &(mp_onnx_options){.dimensions = twice, .n_dimensions = 2}, MP_INVALID, "'length',1 and 2");
    onnx_refused(&b, &(mp_onnx_options){.batch = -1}, MP_INVALID, "--batch -1");
    onnx_end(&b);
}

TEST(a_fixed_batch_can_only_be_confirmed)
{
    onnx_builder b;
    start_linear(&b);
    b.graph.n_input = 0;
    onnx_input(&b, "x", FLOAT, "8,2");
    mp_model_free(onnx_load(&b, &(mp_onnx_options){.batch = 8}));
    mp_model_free(onnx_load(&b, NULL));
    onnx_refused(&b, &(mp_onnx_options){.batch = 4}, MP_INVALID, "fixes the batch at 8,'x',--batch 4");
    const mp_dimension size = {"N", 4};
    onnx_refused(&b, &(mp_onnx_options){.dimensions = &size, .n_dimensions = 1}, MP_INVALID, "'N',no input has an open");
    b.graph.n_input = 0;
    onnx_input(&b, "x", FLOAT, "0,2"); /* some exporters write an open batch as 0 */
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.batch = 4});
    assert_dims(model, "y", 2, 4, 3);
    mp_model_free(model);
    onnx_end(&b);
}

/* Writes a length in five bytes, a valid but unusual encoding. */
static void put_length(FILE *file, int64_t length)
{
    for (int k = 0; k < 5; k++, length >>= 7) fputc((int)((length & 127) | (k < 4 ? 128 : 0)), file);
}

/* Writes the linear model with `columns` outputs; its weights are a hole of `payload` bytes in the file. */
static const char *write_with_hole(onnx_builder *b, int64_t columns, int64_t payload)
{
    uint8_t model[64], weights[64], rest[512];
    Onnx__GraphProto *graph = &b->graph;
    graph->initializer[0]->dims[1] = graph->initializer[1]->dims[0] = columns;
    graph->initializer[0]->has_raw_data = 0;
    int64_t n_weights = (int64_t)onnx__tensor_proto__pack(graph->initializer[0], weights), n_tensor = n_weights + 6 + payload;
    graph->n_initializer = 1;
    graph->initializer[0] = graph->initializer[1];
    size_t n_rest = onnx__graph_proto__pack(graph, rest);
    const char *path = onnx_save_bytes(b, "", 0);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    b->model.graph = NULL;
    fwrite(model, 1, onnx__model_proto__pack(&b->model, model), file);
    fputc(7 << 3 | 2, file); /* graph */
    put_length(file, 6 + n_tensor + (int64_t)n_rest);
    fputc(5 << 3 | 2, file); /* initializer */
    put_length(file, n_tensor);
    fwrite(weights, 1, (size_t)n_weights, file);
    fputc(9 << 3 | 2, file); /* raw_data */
    put_length(file, payload);
    assert_int_equal(fseeko(file, (off_t)payload, SEEK_CUR), 0);
    fwrite(rest, 1, n_rest, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Three gigabytes of weights in a sparse file. Reading it must use less than 32 MiB. */
TEST(weights_are_not_touched)
{
    enum { LEAST_KIB = 32 * 1024 };
    const int64_t payload = 3000000000, columns = payload / 8;
    onnx_builder b;
    start_linear(&b);
    const char *path = write_with_hole(&b, columns, payload);
    pid_t child = fork(); /* a separate process, so that its peak excludes earlier tests */
    if (child == 0) {
        struct rusage before, after;
        mp_error err = {0};
        mp_model *model = NULL;
        getrusage(RUSAGE_SELF, &before);
        mp_status st = mp_onnx_read(path, &(mp_onnx_options){.batch = 5}, &model, &err);
        getrusage(RUSAGE_SELF, &after);
        if (st != MP_OK) fprintf(stderr, "%s\n", err.message);
        bool right =
            st == MP_OK && onnx_find(model, "w")->dims[1] == columns && onnx_find(model, "w")->role == MP_ROLE_PARAMETER;
        mp_model_free(model);
        _exit(!right ? 1 : after.ru_maxrss - before.ru_maxrss > LEAST_KIB ? 2 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    onnx_end(&b);
}

TEST(every_allocation_failure_is_reported)
{
    onnx_builder b;
    start_linear(&b);
    onnx_import(&b, "local", 1);
    Onnx__FunctionProto *f = onnx_function(&b, "local", "Twice", "a", "c");
    onnx_function_node(&b, f, "Relu", "a", "t");
    onnx_function_node(&b, f, "Relu", "t", "c");
    onnx_node(&b, "local.Twice", "call", "y", "z");
    onnx_output(&b, "z", FLOAT, "N,3");
    onnx_unknown(&b, &f->base, 11, "\x0a\x01p\x18\x05", 5);
    const char *path = onnx_save(&b);
    long live = mp_alloc_live, k = 0;
    mp_status st = MP_NOMEM;
    for (; st != MP_OK && k < 5000; k++) {
        mp_error err = {0};
        mp_model *model = NULL;
        mp_alloc_budget = k;
        st = mp_onnx_read(path, &(mp_onnx_options){.batch = 2}, &model, &err);
        mp_alloc_budget = -1;
        if (st != MP_OK && st != MP_NOMEM) fail_msg("allocation %ld: %s", k, err.message);
        mp_model_free(model);
        assert_int_equal(mp_alloc_live, live);
    }
    assert_int_equal(st, MP_OK);
    assert_true(k > 50);
    onnx_end(&b);
}
