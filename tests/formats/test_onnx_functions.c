/* test_onnx_functions.c - functions defined in a file, compared with the graph written out by hand. */
#include "tests/cases/onnx_builder.h"

#include "estimator/model/model.h"
#include "tests/cases/test.h"

enum { FLOAT = 1 };

static void start(onnx_builder *b)
{
    onnx_start(b);
    onnx_import(b, "local", 1);
    onnx_input(b, "x", FLOAT, "N,6");
    onnx_output(b, "y", FLOAT, "");
}

static mp_model *load(onnx_builder *b)
{
    return onnx_load(b, &(mp_onnx_options){.batch = 4});
}

static const mp_operator *producer(const mp_model *model, const char *tensor)
{
    const mp_tensor *t = onnx_find(model, tensor);
    if (t->producer < 0) fail_msg("nothing writes '%s'", tensor);
    return &model->operators[t->producer];
}

TEST(a_call_becomes_the_function_s_nodes)
{
    onnx_builder b;
    start(&b);
    Onnx__FunctionProto *f = onnx_function(&b, "local", "Block", "a", "c");
    onnx_function_node(&b, f, "Relu", "a", "t");
    onnx_function_node(&b, f, "Tanh", "t", "c");
    f->node[1]->name = f->name;
    onnx_node(&b, "local.Block", "first", "x", "m");
    onnx_node(&b, "local.Block", "", "m", "y");
    mp_model *model = load(&b);
    assert_int_equal(model->n_operators, 4);
    assert_string_equal(model->operators[0].kind, "Relu");
    assert_string_equal(model->operators[1].kind, "Tanh");
    assert_string_equal(model->operators[1].name, "first/Block");
    assert_int_equal(onnx_find(model, "first/t")->producer, 0);
    assert_string_equal(producer(model, "y")->kind, "Tanh");
    assert_int_equal(onnx_find(model, "y")->dims[0], 4);
    mp_model_free(model);
    onnx_end(&b);
}

/* axis: from the call, from the function's default (a field newer than Debian's schema), or from the operator's default. */
TEST(attributes_come_from_the_call_or_the_default)
{
    static const int64_t expected[] = {0, 1, -1};
    for (int k = 0; k < 3; k++) {
        onnx_builder b;
        start(&b);
        Onnx__FunctionProto *f = onnx_function(&b, "local", "Outer", "a", "c");
        onnx_reference(&b, onnx_function_node(&b, f, "local.Inner", "a", "c"), "inner axis", "outer axis");
        Onnx__FunctionProto *g = onnx_function(&b, "local", "Inner", "a", "c");
        onnx_reference(&b, onnx_function_node(&b, g, "Softmax", "a", "c"), "axis", "inner axis");
        if (k == 1) onnx_unknown(&b, &g->base, 11, "\x0a\x0ainner axis\x18\x01\xa0\x01\x02", 17);
        Onnx__NodeProto *call = onnx_node(&b, "local.Outer", "call", "x", "y");
        if (k == 0) onnx_int(&b, call, "outer axis", 0);
        mp_model *model = load(&b);
        assert_int_equal(model->n_operators, 1);
        assert_int_equal(mp_operator_int(&model->operators[0], "axis", -1), expected[k]);
        mp_model_free(model);
        onnx_end(&b);
    }
}

TEST(overloads_are_told_apart)
{
    onnx_builder b;
    start(&b);
    Onnx__FunctionProto *f = onnx_function(&b, "local", "Act", "a", "c"), *g = onnx_function(&b, "local", "Act", "a", "c");
    onnx_function_node(&b, f, "Relu", "a", "c");
    onnx_function_node(&b, g, "Tanh", "a", "c");
    onnx_refused(&b, NULL, MP_PARSE, "'Act' twice");
    onnx_unknown(&b, &g->base, 13, "smooth", 6);
    onnx_node(&b, "local.Act", "", "x", "m");
    onnx_unknown(&b, &onnx_node(&b, "local.Act", "", "m", "y")->base, 8, "smooth", 6);
    mp_model *model = load(&b);
    assert_string_equal(producer(model, "m")->kind, "Relu");
    assert_string_equal(producer(model, "y")->kind, "Tanh");
    mp_model_free(model);
    onnx_end(&b);
}

TEST(left_out_operands_stay_left_out)
{
    onnx_builder b;
    start(&b);
    Onnx__FunctionProto *f = onnx_function(&b, "local", "Bound", "a,low,high", "c,rest");
    onnx_function_node(&b, f, "Clip", "a,low,high", "c");
    onnx_function_node(&b, f, "Relu", "a", "rest");
    onnx_initializer(&b, "six", FLOAT, "");
    onnx_node(&b, "local.Bound", "call", "x,,six", "y");
    mp_model *model = load(&b);
    const mp_operator *clip = producer(model, "y");
    assert_int_equal(clip->n_in, 3);
    assert_int_equal(clip->in[1], -1);
    assert_string_equal(model->tensors[clip->in[2]].name, "six");
    assert_string_equal(producer(model, "call/rest")->kind, "Relu");
    mp_model_free(model);
    onnx_node(&b, "local.Bound", "too many", "x,,six,x", "z");
    onnx_refused(&b, &(mp_onnx_options){.batch = 4}, MP_PARSE, "'too many','Bound',4 inputs");
    onnx_end(&b);
}

TEST(an_input_handed_on_is_copied)
{
    onnx_builder b;
    start(&b);
    Onnx__FunctionProto *f = onnx_function(&b, "local", "Fork", "a", "a,c,c");
    onnx_function_node(&b, f, "Relu", "a", "c");
    onnx_node(&b, "local.Fork", "call", "x", "same,y,again");
    onnx_output(&b, "same", FLOAT, "");
    onnx_output(&b, "again", FLOAT, "");
    mp_model *model = load(&b);
    assert_string_equal(producer(model, "same")->kind, "Identity");
    assert_int_equal(producer(model, "same")->in[0], mp_model_find(model, "x"));
    assert_string_equal(producer(model, "y")->kind, "Relu");
    assert_int_equal(producer(model, "again")->in[0], mp_model_find(model, "y"));
    mp_model_free(model);
    onnx_end(&b);
}

/* com.microsoft's Gelu is in the registry: one operator has more information than its five parts. */
TEST(a_known_operator_stays_whole)
{
    onnx_builder b;
    start(&b);
    onnx_import(&b, "com.microsoft", 1);
    Onnx__FunctionProto *f = onnx_function(&b, "com.microsoft", "Gelu", "a", "c");
    onnx_function_node(&b, f, "Erf", "a", "c");
    onnx_node(&b, "com.microsoft.Gelu", "gelu", "x", "y");
    mp_model *model = load(&b);
    assert_string_equal(producer(model, "y")->kind, "Gelu");
    mp_model_free(model);
    onnx_end(&b);
}

TEST(a_function_has_its_own_operator_sets)
{
    onnx_builder b;
    start(&b);
    Onnx__OperatorSetIdProto old = ONNX__OPERATOR_SET_ID_PROTO__INIT, *imports[] = {&old};
    old.has_version = 1;
    old.version = 11;
    Onnx__FunctionProto *f = onnx_function(&b, "local", "Old", "a", "c");
    f->opset_import = imports;
    onnx_function_node(&b, f, "Softmax", "a", "c");
    onnx_node(&b, "local.Old", "call", "x", "m");
    onnx_node(&b, "Softmax", "new", "m", "y");
    mp_model *model = load(&b);
    assert_int_equal(producer(model, "m")->version, 11);
    assert_int_equal(producer(model, "y")->version, 17);
    mp_model_free(model);
    old.version = 0;
    onnx_refused(&b, NULL, MP_PARSE, "version 0");
    onnx_end(&b);
}

TEST(what_a_function_lacks_is_named)
{
    onnx_builder b;
    start(&b);
    Onnx__FunctionProto *f = onnx_function(&b, "local", "Bad", "a", "c");
    onnx_function_node(&b, f, "Add", "a,ghost", "c");
    onnx_node(&b, "local.Bad", "call", "x", "y");
    onnx_refused(&b, &(mp_onnx_options){.batch = 4}, MP_PARSE, "'call/ghost'");
    onnx_reference(&b, b.graph.node[0], "axis", "somewhere");
    onnx_refused(&b, &(mp_onnx_options){.batch = 4}, MP_PARSE, "'call','somewhere',not in a function");
    onnx_end(&b);
}
