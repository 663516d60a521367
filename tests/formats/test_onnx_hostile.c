/* test_onnx_hostile.c - invalid ONNX files: each gives one sentence that names the fault, without leaks or crashes. */
#include <time.h>

#include "tests/cases/onnx_builder.h"

#include "estimator/base/memory.h"
#include "tests/cases/test.h"

enum { FLOAT = 1, INT64 = 7 };

/* x[2] -> Relu 'first' -> y */
static void start(onnx_builder *b)
{
    onnx_start(b);
    onnx_input(b, "x", FLOAT, "2");
    onnx_node(b, "Relu", "first", "x", "y");
    onnx_output(b, "y", FLOAT, "2");
}

static void refuse(onnx_builder *b, mp_status expected, const char *words)
{
    onnx_refused(b, NULL, expected, words);
    onnx_end(b);
}

TEST(files_that_are_no_models)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_file_refused("/nowhere/model.onnx", NULL, MP_IO, "No such file");
    onnx_file_refused("tests", NULL, MP_IO, "directory");
    onnx_file_refused("/dev/null", NULL, MP_IO, "regular file");
    onnx_file_refused(onnx_save_bytes(&b, "", 0), NULL, MP_PARSE, "empty");
    onnx_file_refused(onnx_save_bytes(&b, "digraph { a -> b }", 18), NULL, MP_PARSE, "no ONNX model");
    onnx_file_refused(onnx_save_bytes(&b, "\x08\x08", 2), NULL, MP_PARSE, "no graph");
    onnx_end(&b);
}

/* Files of another kind, as beginners may pass them: the message names the kind and the remedy. */
TEST(files_of_other_kinds)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        {"PK\3\4\0\0\x08\x08", 8, "ZIP,.pth,torch.onnx.export"},
        {"\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20", 10, "PyTorch checkpoint,torch.onnx.export"},
        {"\x80\2}q", 4, "pickle,torch.onnx.export"},
        {"\x80\4\x95\0", 4, "pickle"},
        {"\x1c\0\0\0TFL3", 8, "TensorFlow Lite,tf2onnx"},
        {"\x20\0\0\0ORTM", 8, "ONNX Runtime,.onnx"},
        {"\x89HDF\r\n\x1a\n\0", 9, "HDF5,tf2onnx"},
        {"GGUF\3\0\0\0", 8, "GGUF"},
        {"\x93NUMPY\1\0", 8, "NumPy,--data"},
        {"<?xml version", 13, "OpenVINO"},
        {"\x1f\x8b\x08", 3, "gunzip"},
        {"\x0a\0\0\0\0\0\0\0{\"a\": 1 }", 18, "safetensors,torch.onnx.export"},
    };
    onnx_builder b;
    onnx_start(&b);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        onnx_file_refused(onnx_save_bytes(&b, cases[k].bytes, cases[k].n), NULL, MP_UNSUPPORTED, cases[k].words);
    onnx_end(&b);
}

TEST(broken_wire_formats)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } cases[] = {
        {"\x3a\x0a\x0a\x02", 4, "cut off,ModelProto,byte 0"},                   /* a graph of 10 bytes with only 2 present */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, "byte 0"}, /* a number of twelve bytes */
        {"\x3b\x3c", 2, "ModelProto"},                                          /* a group */
        {"\x02\x01z", 3, "ModelProto"},                                         /* field 0 */
        {"\x38\x01", 2, "wrong kind,ModelProto"},                               /* a graph encoded as a number */
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, "cut off"},            /* an absurd length */
        {"\x3a\x03\x12\x01\xff", 5, "UTF-8,GraphProto,byte 2"},                 /* a name that is not text */
        {"\x3a\x05\x12\x03g\0h", 7, "zero byte,GraphProto"},
        {"\x3a\x03\x12\x01g\x3a\x03\x12\x01h", 10, "repeats,'graph',ModelProto,byte 5"},
    };
    onnx_builder b;
    onnx_start(&b);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        onnx_file_refused(onnx_save_bytes(&b, cases[k].bytes, cases[k].n), NULL, MP_PARSE, cases[k].words);
    onnx_end(&b);
}

/* Messages nested deeply, built from the inside out: attribute in node in graph in attribute ... */
TEST(deep_nesting_does_not_reach_the_stack)
{
    enum { LEVELS = 30000 };
    static uint8_t bytes[LEVELS * 3 * 6];
    const uint8_t tags[] = {6 << 3 | 2, 5 << 3 | 2,
                            1 << 3 | 2}; /* graph of an attribute, attribute of a node, node of a graph */
    size_t at = sizeof bytes;
    onnx_builder b;
    onnx_start(&b);
    for (int k = 0; k < LEVELS * 3; k++) {
        size_t length = sizeof bytes - at;
        uint8_t tag = k == LEVELS * 3 - 1 ? 7 << 3 | 2 : tags[(k + 1) % 3];
        at -= 6;
        bytes[at] = tag;
        for (int d = 0; d < 5; d++) bytes[at + 1 + (size_t)d] = (uint8_t)((length >> (7 * d) & 127) | (d < 4 ? 128 : 0));
    }
    onnx_file_refused(onnx_save_bytes(&b, bytes + at, sizeof bytes - at), NULL, MP_PARSE, "64 deep");
    onnx_end(&b);
}

static double seconds_since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* Each empty message has two bytes, but needs a hundred times that in memory: their number must be limited. */
TEST(millions_of_messages_are_counted)
{
    enum { BYTES = 12 << 20 };
    uint8_t *bytes = malloc(BYTES);
    onnx_builder b;
    onnx_start(&b);
    for (int k = 0; k < BYTES; k += 2) { /* initializers */
        bytes[k] = 5 << 3 | 2;
        bytes[k + 1] = 0;
    }
    bytes[0] = 7 << 3 | 2;
    size_t length = BYTES - 6;
    for (int d = 0; d < 5; d++) bytes[1 + d] = (uint8_t)((length >> (7 * d) & 127) | (d < 4 ? 128 : 0));
    clock_t begin = clock();
    onnx_file_refused(onnx_save_bytes(&b, bytes, BYTES), NULL, MP_PARSE, "messages");
    for (int k = 6; k < BYTES; k += 2) bytes[k] = 1 << 3 | 2; /* nodes */
    onnx_file_refused(onnx_save_bytes(&b, bytes, BYTES), NULL, MP_PARSE, "operators");
    assert_true(seconds_since(begin) < 20);
    free(bytes);
    onnx_end(&b);
}

/* Each And reads the And before it twice, so the last one has 2^60 paths to the first. */
TEST(paths_of_conditions_are_limited)
{
    char in[20], out[20];
    onnx_builder b;
    start(&b);
    onnx_node(&b, "Greater", "", "x,y", "c0");
    for (int k = 0; k < 60; k++) {
        snprintf(in, sizeof in, "c%d,c%d", k, k);
        snprintf(out, sizeof out, "c%d", k + 1);
        onnx_node(&b, "And", "", in, out);
    }
    onnx_node(&b, "Where", "", "c60,x,y", "z");
    const clock_t begin = clock();
    mp_model_free(onnx_load(&b, NULL));
    assert_true(seconds_since(begin) < 5);
    onnx_end(&b);
}

TEST(every_truncation_and_many_flips_are_survived)
{
    static uint8_t good[4096], bad[4096];
    onnx_builder b;
    onnx_start(&b);
    FILE *file = fopen("examples/mlp4.onnx", "rb");
    assert_non_null(file);
    size_t n = fread(good, 1, sizeof good, file);
    fclose(file);
    assert_true(n > 1000 && n < sizeof good);
    uint64_t random = 1;
    for (size_t k = 0; k < n + 1500; k++) {
        size_t length = k < n ? k : n;
        memcpy(bad, good, n);
        for (int flips = 0; k >= n && flips < 1 + (int)(k % 3); flips++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bad[(random >> 33) % n] ^= (uint8_t)(1u << (random >> 29 & 7));
        }
        mp_error err = {0};
        mp_model *model = NULL;
        long live = mp_alloc_live;
        mp_status st = mp_onnx_read(onnx_save_bytes(&b, bad, length), &(mp_onnx_options){.batch = 2}, &model, &err);
        if (k < n && st != MP_PARSE && k < n - 100)
            fail_msg("read %zu of %zu bytes", k, n); /* only metadata at the end may be missing */
        if ((st != MP_OK && st != MP_PARSE && st != MP_UNSUPPORTED && st != MP_INVALID) || (st != MP_OK && !err.message[0]))
            fail_msg("case %zu: %s: %s", k, mp_status_text(st), err.message);
        mp_model_free(model);
        assert_int_equal(mp_alloc_live, live);
    }
    onnx_end(&b);
}

TEST(graphs_that_cannot_run)
{
    onnx_builder b;
    start(&b);
    onnx_node(&b, "Add", "loop", "x,z", "z");
    refuse(&b, MP_PARSE, "'loop','z'");
    start(&b);
    onnx_node(&b, "Add", "one", "x,v", "u");
    onnx_node(&b, "Add", "two", "x,u", "v");
    refuse(&b, MP_PARSE, "cycle");
    start(&b);
    onnx_node(&b, "Add", "sum", "x,ghost", "z");
    refuse(&b, MP_PARSE, "'ghost',sum");
    start(&b);
    onnx_output(&b, "ghost", FLOAT, "2");
    refuse(&b, MP_PARSE, "'ghost'");
    start(&b);
    onnx_node(&b, "Tanh", "second", "x", "y");
    refuse(&b, MP_PARSE, "'first','second','y'");
    start(&b);
    onnx_node(&b, "Tanh", "second", "y", "x");
    refuse(&b, MP_PARSE, "'second','x'");
    start(&b);
    b.graph.n_output = 0;
    refuse(&b, MP_PARSE, "no output");
}

TEST(names_that_are_taken_or_missing)
{
    onnx_builder b;
    start(&b);
    onnx_input(&b, "x", FLOAT, "2");
    refuse(&b, MP_PARSE, "two inputs,'x'");
    start(&b);
    onnx_initializer(&b, "w", FLOAT, "2");
    onnx_initializer(&b, "w", FLOAT, "2");
    refuse(&b, MP_PARSE, "two initializers,'w'");
    start(&b);
    onnx_output(&b, "y", FLOAT, "2");
    refuse(&b, MP_PARSE, "two outputs,'y'");
    start(&b);
    onnx_initializer(&b, "", FLOAT, "2");
    refuse(&b, MP_PARSE, "initializer,name");
    start(&b);
    onnx_input(&b, "", FLOAT, "2");
    refuse(&b, MP_PARSE, "input,name");
    start(&b);
    onnx_node(&b, "", "nothing", "x", "z");
    refuse(&b, MP_PARSE, "'nothing'");
    start(&b);
    onnx_int(&b, b.graph.node[0], "a", 1);
    onnx_int(&b, b.graph.node[0], "a", 2);
    refuse(&b, MP_PARSE, "'first',two attributes,'a'");
}

TEST(sizes_that_cannot_be)
{
    static const float two[] = {1, 2};
    onnx_builder b;
    start(&b);
    onnx_initializer(&b, "w", FLOAT, "4611686018427387904,4");
    refuse(&b, MP_PARSE, "'w'");
    start(&b);
    onnx_initializer(&b, "w", FLOAT, "4611686018427387904");
    refuse(&b, MP_PARSE, "'w'");
    start(&b);
    onnx_initializer(&b, "w", FLOAT, "3,-2");
    refuse(&b, MP_PARSE, "'w',negative,-2");
    start(&b);
    onnx_initializer(&b, "w", FLOAT, "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
    refuse(&b, MP_PARSE, "'w',32 dimensions");
    start(&b);
    onnx_raw(onnx_initializer(&b, "w", FLOAT, "3"), two, sizeof two);
    refuse(&b, MP_PARSE, "'w',8,12");
    start(&b);
    onnx_raw(onnx_initializer(&b, "w", FLOAT, "3000,1000"), two, sizeof two);
    refuse(&b, MP_PARSE, "'w',8,12000000");
    start(&b);
    Onnx__TensorProto *t = onnx_initializer(&b, "w", INT64, "2");
    static int64_t three[] = {1, 2, 3};
    t->n_int64_data = 3;
    t->int64_data = three;
    refuse(&b, MP_PARSE, "'w',3,2");
    start(&b);
    onnx_input(&b, "v", FLOAT, "2,-5");
    refuse(&b, MP_PARSE, "'v',negative,-5");
    start(&b);
    onnx_input(&b, "v", FLOAT, "4611686018427387904,4611686018427387904");
    refuse(&b, MP_PARSE, "'v'");
    start(&b);
    onnx_input(&b, "v", FLOAT, "length,2");
    refuse(&b, MP_PARSE, "'length','v',--dim length=SIZE");
}

TEST(features_that_are_not_supported)
{
    onnx_builder b;
    start(&b);
    onnx_node(&b, "Frobnicate", "odd", "x", "z");
    refuse(&b, MP_UNSUPPORTED, "Frobnicate,'odd'");
    start(&b);
    onnx_node(&b, "acme.Relu", "odd", "x", "z");
    refuse(&b, MP_PARSE, "acme.Relu,'odd',import");
    start(&b);
    Onnx__GraphProto body = ONNX__GRAPH_PROTO__INIT;
    onnx_attribute(&b, onnx_node(&b, "If", "branch", "x", "z"), "then_branch", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)
        ->g = &body;
    refuse(&b, MP_PARSE, "If,'branch',subgraph,'else_branch'");
    start(&b);
    onnx_attribute(&b, onnx_node(&b, "Relu", "odd", "x", "z"), "body", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = &body;
    refuse(&b, MP_PARSE, "Relu,'odd',subgraph,'body'");
    start(&b);
    onnx_initializer(&b, "w", 99, "2");
    refuse(&b, MP_UNSUPPORTED, "'w',99");
    start(&b);
    onnx_initializer(&b, "w", 0, "2");
    refuse(&b, MP_PARSE, "'w',type");
    start(&b);
    onnx_input(&b, "list", FLOAT, "2");
    Onnx__TypeProto *type = b.graph.input[1]->type;
    Onnx__TypeProto__Sequence sequence = ONNX__TYPE_PROTO__SEQUENCE__INIT;
    type->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    type->sequence_type = &sequence;
    refuse(&b, MP_UNSUPPORTED, "'list',sequence");
    start(&b);
    onnx_input(&b, "v", FLOAT, "2");
    b.graph.input[1]->type->tensor_type->shape = NULL;
    refuse(&b, MP_UNSUPPORTED, "'v',shape");
}

TEST(operator_sets_that_cannot_be)
{
    onnx_builder b;
    start(&b);
    b.model.opset_import[0]->version = 0;
    refuse(&b, MP_PARSE, "version 0,ai.onnx");
    start(&b);
    b.model.opset_import[0]->version = 1ll << 40;
    refuse(&b, MP_PARSE, "version 1099511627776");
    start(&b);
    onnx_import(&b, "ai.onnx", 9);
    refuse(&b, MP_PARSE, "two versions,ai.onnx");
    start(&b);
    b.model.n_opset_import = 0;
    refuse(&b, MP_PARSE, "no operator set");
}

/* f -> g -> f, and a tower of functions where each calls the next one ten times. */
TEST(functions_that_never_end)
{
    onnx_builder b;
    start(&b);
    onnx_import(&b, "f", 1);
    onnx_function_node(&b, onnx_function(&b, "f", "One", "a", "b"), "f.Two", "a", "b");
    onnx_function_node(&b, onnx_function(&b, "f", "Two", "a", "b"), "f.One", "a", "b");
    onnx_node(&b, "f.One", "call", "x", "z");
    refuse(&b, MP_PARSE, "'One',itself");
    for (int empty = 0; empty < 2; empty++) {
        char name[20], next[20], out[20];
        start(&b);
        onnx_import(&b, "f", 1);
        for (int k = 0; k < 20; k++) {
            snprintf(name, sizeof name, "F%d", k);
            snprintf(next, sizeof next, k < 19 ? "f.F%d" : "Relu", k + 1);
            Onnx__FunctionProto *f = onnx_function(&b, "f", name, "a", "");
            for (int j = 0; j < 10 && !(empty && k == 19); j++) {
                snprintf(out, sizeof out, "t%d", j);
                onnx_function_node(&b, f, next, "a", k < 19 ? "" : out);
            }
        }
        onnx_node(&b, "f.F0", "call", "x", "");
        refuse(&b, MP_PARSE, "inlining,too large");
    }
    start(&b);
    onnx_import(&b, "f", 1);
    for (int k = 0; k < 70; k++) {
        char name[20], next[20];
        snprintf(name, sizeof name, "F%d", k);
        snprintf(next, sizeof next, "f.F%d", k + 1);
        onnx_function_node(&b, onnx_function(&b, "f", name, "a", "b"), k < 69 ? next : "Relu", "a", "b");
    }
    onnx_node(&b, "f.F0", "call", "x", "z");
    refuse(&b, MP_PARSE, "64 deep");
}
