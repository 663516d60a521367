/* test_onnx_masks.c - causal masks are recognised from the file's values, or without values. */
#include "tests/cases/onnx_builder.h"
#include "tests/cases/test.h"

enum { FLOAT = 1, UINT8 = 2, BOOL = 9, SIDE = 400 }; /* more elements than a model stores */

static uint8_t past[SIDE * SIDE], future[SIDE * SIDE], holed[SIDE * SIDE];

static void fill(void)
{
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            past[row * SIDE + column] = holed[row * SIDE + column] = column <= row;
            future[row * SIDE + column] = column > row;
        }
    holed[SIDE * SIDE - 2] = 0;
}

TEST(what_the_file_has_is_looked_at)
{
    static const struct {
        const char *name, *dims;
        const uint8_t *bytes;
        int type;
        mp_mask mask;
    } masks[] = {
        {"past", "400,400", past, BOOL, MP_MASK_PAST},      {"future", "400,400", future, BOOL, MP_MASK_FUTURE},
        {"bytes", "400,400", past, UINT8, MP_MASK_PAST},    {"batched", "1,1,400,400", past, BOOL, MP_MASK_PAST},
        {"holed", "400,400", holed, BOOL, MP_MASK_UNKNOWN}, {"flat", "160000", past, BOOL, MP_MASK_UNKNOWN},
        {"wide", "200,800", past, BOOL, MP_MASK_UNKNOWN},   {"two", "2,200,400", past, BOOL, MP_MASK_UNKNOWN},
    };
    onnx_builder b;
    onnx_start(&b);
    fill();
    onnx_input(&b, "x", FLOAT, "N,3");
    onnx_initializer(&b, "w", FLOAT, "3,3");
    onnx_node(&b, "MatMul", "", "x,w", "y");
    onnx_output(&b, "y", FLOAT, "");
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++)
        onnx_raw(onnx_initializer(&b, masks[k].name, masks[k].type, masks[k].dims), masks[k].bytes, SIDE * SIDE);
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.batch = 2});
    for (size_t k = 0; k < sizeof masks / sizeof *masks; k++) {
        const mp_tensor *t = onnx_find(model, masks[k].name);
        assert_null(t->value);
        if (t->mask != masks[k].mask) fail_msg("%s is a mask of kind %d", t->name, (int)t->mask);
    }
    mp_model_free(model);
    onnx_end(&b);
}

/* executor/data/parameters.c fills such masks. Their reader determines which half is true. */
TEST(a_square_buffer_without_values_is_a_causal_mask)
{
    onnx_builder b;
    onnx_start(&b);
    onnx_input(&b, "x", FLOAT, "N,8,8");
    onnx_input(&b, "h.weight", FLOAT, "8,8");
    onnx_input(&b, "h.mask", BOOL, "1,8,8");
    onnx_input(&b, "h.wide", BOOL, "4,8");
    onnx_input(&b, "h.bytes", UINT8, "8,8");
    onnx_node(&b, "MatMul", "", "x,h.weight", "y");
    onnx_input(&b, "h.hidden", BOOL, "1,1,8,8");
    onnx_input(&b, "h.shown", BOOL, "8,8");
    const float values[] = {-10000, 3};
    onnx_raw(onnx_initializer(&b, "low", FLOAT, ""), &values[0], 4);
    onnx_raw(onnx_initializer(&b, "three", FLOAT, ""), &values[1], 4);
    onnx_node(&b, "Where", "", "h.mask,x,low", "z");
    onnx_node(&b, "Where", "", "h.hidden,low,z", "u");
    onnx_node(&b, "Where", "", "h.shown,three,u", "v");
    onnx_output(&b, "v", FLOAT, "");
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.batch = 2});
    assert_int_equal(onnx_find(model, "h.mask")->mask, MP_MASK_PAST);
    assert_int_equal(onnx_find(model, "h.hidden")->mask, MP_MASK_FUTURE);
    assert_int_equal(onnx_find(model, "h.shown")->mask, MP_MASK_PAST);
    assert_int_equal(onnx_find(model, "h.wide")->mask, MP_MASK_UNKNOWN);
    assert_int_equal(onnx_find(model, "h.bytes")->mask, MP_MASK_UNKNOWN);
    assert_int_equal(onnx_find(model, "x")->mask, MP_MASK_UNKNOWN);
    mp_model_free(model);
    onnx_end(&b);
}

/* PyTorch's newer exporter from operator set 23 on: dropout in attention with a boolean mask. The file is invalid. */
TEST(an_added_boolean_mask_has_a_remedy)
{
    for (int newer = 0; newer < 2; newer++) {
        onnx_builder b;
        onnx_start(&b);
        onnx_input(&b, "x", FLOAT, "2,3,3");
        onnx_input(&b, "mask", BOOL, "3,3");
        onnx_initializer(&b, "l.weight", FLOAT, "3,3");
        onnx_node(&b, "MatMul", newer ? "node_MatMul" : "", "x,l.weight", "scores");
        onnx_node(&b, "Add", newer ? "node_Add" : "", "scores,mask", "y");
        onnx_output(&b, "y", FLOAT, "");
        onnx_refused(&b, &(mp_onnx_options){0}, MP_PARSE,
                     newer ? "Add,'mask',bool,float32,export with opset_version=22" : "Add,'mask',bool,float32");
        onnx_end(&b);
    }
}
