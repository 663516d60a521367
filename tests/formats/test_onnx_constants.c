/* test_onnx_constants.c - weights stored as Constant and ConstantOfShape operators, also rearranged, instead of initializers.
 * Numbers of parameters are counted by hand. */
#include "tests/cases/onnx_builder.h"

#include "estimator/model/model.h"
#include "tests/cases/test.h"

enum { FLOAT = 1, INT8 = 3, INT64 = 7, FLOAT16 = 10 };

static const float numbers[128] = {1, 2};
static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const int64_t shape_8_16[] = {8, 16}, shape_16_3[] = {16, 3};

static Onnx__TensorProto *constant(onnx_builder *b, const char *name, int type, const char *dims, const void *bytes, size_t n)
{
    Onnx__NodeProto *node = onnx_node(b, "Constant", "", "", name);
    Onnx__TensorProto *t = onnx_tensor(b, "", type, dims);
    onnx_attribute(b, node, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = t;
    onnx_raw(t, bytes, n);
    return t;
}

static void floats(onnx_builder *b, const char *name, const char *dims, size_t n)
{
    constant(b, name, FLOAT, dims, numbers, n * sizeof *numbers);
}

static int64_t count_parameters(const mp_model *model)
{
    int64_t n = 0;
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].role == MP_ROLE_PARAMETER && model->tensors[k].producer < 0)
            n += mp_tensor_elements(&model->tensors[k]);
    return n;
}

static void plain(onnx_builder *b)
{
    floats(b, "w", "8,16", 128);
    floats(b, "bias", "16", 16);
    onnx_node(b, "MatMul", "", "x,w", "h");
    onnx_node(b, "Add", "", "h,bias", "y");
}

static void rearranged(onnx_builder *b)
{
    floats(b, "w", "16,8", 128);
    onnx_node(b, "Transpose", "", "w", "wt");
    floats(b, "v", "48", 48);
    constant(b, "shape", INT64, "2", shape_16_3, sizeof shape_16_3);
    onnx_node(b, "Reshape", "", "v,shape", "v2");
    onnx_node(b, "MatMul", "", "x,wt", "h");
    onnx_node(b, "MatMul", "", "h,v2", "y");
}

static void of_shape(onnx_builder *b)
{
    onnx_raw(onnx_initializer(b, "first", INT64, "2"), shape_8_16, sizeof shape_8_16);
    constant(b, "second", INT64, "2", shape_16_3, sizeof shape_16_3);
    onnx_node(b, "ConstantOfShape", "", "first", "w");
    onnx_node(b, "ConstantOfShape", "", "second", "v");
    onnx_node(b, "MatMul", "", "x,w", "h");
    onnx_node(b, "MatMul", "", "h,v", "y");
}

static void of_half(onnx_builder *b)
{
    constant(b, "w", FLOAT16, "8,16", numbers, 256);
    onnx_node(b, "Cast", "", "w", "wide");
    onnx_int(b, b->graph.node[1], "to", FLOAT);
    onnx_node(b, "MatMul", "", "x,wide", "y");
}

/* The initializers have fewer weights than the constants: the constants are trained, with a warning. */
static void most_outside(onnx_builder *b)
{
    onnx_initializer(b, "v", FLOAT, "16,3");
    floats(b, "w", "8,16", 128);
    onnx_node(b, "MatMul", "", "x,w", "h");
    onnx_node(b, "MatMul", "", "h,v", "y");
}

/* A fixed filter in a file whose weights are initializers. */
static void fewer_outside(onnx_builder *b)
{
    onnx_initializer(b, "w", FLOAT, "8,16");
    floats(b, "v", "16,3", 48);
    floats(b, "bias", "3", 3);
    onnx_node(b, "MatMul", "", "x,w", "h");
    onnx_node(b, "MatMul", "", "h,v", "s");
    onnx_node(b, "Add", "", "s,bias", "y");
}

/* A normalization without scale, a mask and a factor are not weights. */
static void fillings(onnx_builder *b)
{
    onnx_initializer(b, "w", FLOAT, "8,16");
    constant(b, "scale", FLOAT, "16", ones, sizeof ones);
    floats(b, "half", "", 1);
    floats(b, "mask", "2,16", 32);
    onnx_node(b, "MatMul", "", "x,w", "h");
    onnx_node(b, "LayerNormalization", "", "h,scale", "n");
    onnx_node(b, "Mul", "", "n,half", "m");
    onnx_node(b, "Mul", "", "m,mask", "y");
}

static void quantized(onnx_builder *b)
{
    onnx_initializer(b, "w8", INT8, "8,16");
    onnx_initializer(b, "v", FLOAT, "16,3");
    onnx_initializer(b, "steps", FLOAT, "16");
    onnx_node(b, "Cast", "", "w8", "wide");
    onnx_int(b, b->graph.node[0], "to", FLOAT);
    onnx_node(b, "Mul", "", "wide,steps", "w");
    onnx_node(b, "MatMul", "", "x,w", "h");
    onnx_node(b, "MatMul", "", "h,v", "y");
}

static const struct row {
    const char *name;
    void (*build)(onnx_builder *b);
    int64_t parameters, adopted, constant, integer; /* numbers of elements */
} rows[] = {{"plain", plain, 128 + 16, 0, 0, 0},
            {"rearranged", rearranged, 128 + 48, 0, 0, 0},
            {"of shape", of_shape, 128 + 48, 0, 0, 0},
            {"half", of_half, 128, 0, 0, 0},
            {"most outside", most_outside, 48 + 128, 128, 0, 0},
            {"fewer outside", fewer_outside, 128, 0, 48 + 3, 0},
            {"fillings", fillings, 128, 0, 0, 0},
            {"quantized", quantized, 48 + 16, 0, 0, 128}};

static void start(onnx_builder *b, const struct row *r)
{
    onnx_start(b);
    onnx_input(b, "x", FLOAT, "2,8");
    r->build(b);
    onnx_output(b, "y", FLOAT, "");
}

TEST(weights_outside_initializers_are_trained_or_counted)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        onnx_builder b;
        start(&b, &rows[k]);
        mp_model *model = onnx_load(&b, &(mp_onnx_options){0});
        const int64_t found[] = {count_parameters(model), model->doubts[MP_DOUBT_ADOPTED].elements,
                                 model->doubts[MP_DOUBT_CONSTANT].elements, model->doubts[MP_DOUBT_INTEGER].elements};
        const int64_t wanted[] = {rows[k].parameters, rows[k].adopted, rows[k].constant, rows[k].integer};
        for (int j = 0; j < 4; j++)
            if (found[j] != wanted[j])
                fail_msg("%s: count %d is %ld, not %ld", rows[k].name, j, (long)found[j], (long)wanted[j]);
        assert_role(model, "x", "data");
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* A voice detector: a state in addition to the sound, and weights as constants within If. The state is not a weight. */
TEST(weights_of_subgraphs_leave_the_state_an_input)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "2,8");
    onnx_input(&b, "state", FLOAT, "2,8");
    floats(&b, "w", "8,16", 128);
    floats(&b, "u", "8,16", 128);
    onnx_node(&b, "MatMul", "", "x,w", "h");
    onnx_node(&b, "MatMul", "", "state,u", "s");
    onnx_node(&b, "Add", "", "h,s", "y");
    onnx_output(&b, "y", FLOAT, "");
    mp_model *model = onnx_load(&b, &(mp_onnx_options){0});
    assert_role(model, "state", "data");
    assert_int_equal(count_parameters(model), 256);
    mp_model_free(model);
    onnx_end(&b);
}

/* --train selects a constant by its name or by a rearranged tensor's name, or all weights by a pattern. */
TEST(constants_can_be_named_to_be_trained)
{
    static const struct {
        const char *pattern;
        int64_t parameters;
    } named[] = {{"v", 128 + 48}, {"turned", 128 + 48}, {"bias", 128 + 3}, {"*", 128 + 48 + 3}, {"mask", 128 + 6}};
    for (size_t k = 0; k < sizeof named / sizeof *named; k++) {
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,8");
        onnx_initializer(&b, "w", FLOAT, "8,16");
        floats(&b, "v", "3,16", 48);
        floats(&b, "bias", "3", 3);
        floats(&b, "mask", "2,3", 6);
        onnx_node(&b, "Transpose", "", "v", "turned");
        onnx_node(&b, "MatMul", "", "x,w", "h");
        onnx_node(&b, "MatMul", "", "h,turned", "s");
        onnx_node(&b, "Add", "", "s,bias", "t");
        onnx_node(&b, "Mul", "", "t,mask", "y");
        onnx_output(&b, "y", FLOAT, "");
        mp_model *model = onnx_load(&b, &(mp_onnx_options){.train = &named[k].pattern, .n_train = 1});
        if (count_parameters(model) != named[k].parameters)
            fail_msg("--train '%s': %ld parameters", named[k].pattern, (long)count_parameters(model));
        mp_model_free(model);
        if (k == 0)
            onnx_refused(&b, &(mp_onnx_options){.train = &(const char *){"nobody"}, .n_train = 1}, MP_INVALID, "nobody");
        onnx_end(&b);
    }
}

/* A factor of attention scores is no parameter: with rank 0 or 1, before or after the product. Other factors have the role that
 * their name indicates. */
TEST(a_number_that_scales_scores_is_a_constant)
{
    static const struct {
        const char *name, *dims, *weight, *where, *role;
    } factors[] = {{"scale", "", "q.weight", "scores", "constant"},  {"scale", "1", "q.weight", "scores", "constant"},
                   {"scale", "", "wq", "scores", "constant"},        {"scale", "1", "wq", "scores", "constant"},
                   {"scale", "", "q.weight", "queries", "constant"}, {"attn.scale", "", "q.weight", "scores", "parameter"},
                   {"scale", "", "q.weight", "result", "parameter"}, {"scale", "", "wq", "result", "constant"},
                   {"scale", "1", "wq", "result", "constant"},       {"attn.scale", "1", "wq", "result", "parameter"},
                   {"scale", "2,1,1", "wq", "scores", "parameter"}};
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
        const char *scale = factors[k].name, *at = factors[k].where;
        char by_weight[40], q[40], s[40], y[40];
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,4,8");
        onnx_initializer(&b, factors[k].weight, FLOAT, "8,8");
        onnx_initializer(&b, scale, FLOAT, factors[k].dims);
        snprintf(by_weight, sizeof by_weight, "x,%s", factors[k].weight);
        snprintf(q, sizeof q, "q,%s", scale);
        snprintf(s, sizeof s, "s,%s", scale);
        snprintf(y, sizeof y, "r,%s", scale);
        onnx_node(&b, "MatMul", "", by_weight, "q");
        if (!strcmp(at, "queries")) onnx_node(&b, "Mul", "", q, "q2");
        onnx_node(&b, "Transpose", "", "x", "k");
        onnx_attribute(&b, b.graph.node[b.graph.n_node - 1], "perm", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS)->ints =
            (int64_t[]){0, 2, 1};
        b.graph.node[b.graph.n_node - 1]->attribute[0]->n_ints = 3;
        onnx_node(&b, "MatMul", "", strcmp(at, "queries") ? "q,k" : "q2,k", "s");
        if (!strcmp(at, "scores")) onnx_node(&b, "Mul", "", s, "s2");
        onnx_node(&b, "Softmax", "", strcmp(at, "scores") ? "s" : "s2", "p");
        onnx_node(&b, "MatMul", "", "p,x", "r");
        if (!strcmp(at, "result")) onnx_node(&b, "Mul", "", y, "y");
        onnx_output(&b, strcmp(at, "result") ? "r" : "y", FLOAT, "");
        mp_model *model = onnx_load(&b, &(mp_onnx_options){0});
        if (strcmp(mp_role_name(onnx_find(model, scale)->role), factors[k].role))
            fail_msg("row %zu: %s is a %s", k, scale, mp_role_name(onnx_find(model, scale)->role));
        mp_model_free(model);
        onnx_end(&b);
    }
}
