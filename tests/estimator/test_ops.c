/* test_ops.c - the operator table: each row is complete and consistent, rows are found by name and version, and all documented
 * operators are present. */
#include <limits.h>

#include "estimator/model/requirement.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"

TEST(every_row_is_whole)
{
    assert_true(mp_op_count() > 150);
    assert_null(mp_op_row(mp_op_count()));
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        if (!row->shape || row->since < 1 || row->min_in < 0 || row->min_out < 0 ||
            (row->max_in >= 0 && row->max_in < row->min_in) || (row->max_out >= 0 && row->max_out < row->min_out))
            fail_msg("the row of %s is not whole", row->name);
        if (mp_op_find(row->domain, row->name, row->since) != row) fail_msg("%s is not found, or stands twice", row->name);
    }
}

/* Returns the bits of a need for an input, output or extra that the operator does not have. */
static uint32_t impossible(const mp_op *row, uint32_t need)
{
    uint32_t possible = row->max_in < 0 || row->max_in > 1 ? MP_INPUTS : 0;
    for (int k = 0; k < 8; k++) {
        if (row->max_in < 0 || k < row->max_in) possible |= MP_IN(k);
        if (row->max_out < 0 || k < row->max_out) possible |= MP_OUT(k);
        if (row->extras && k < MP_EXTRAS_MAX) possible |= MP_EXTRA(k);
    }
    return need & ~possible;
}

TEST(gradients_need_only_what_there_is)
{
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        bool free_of_values = row->gradient == MP_GRADIENT_NONE || row->gradient == MP_GRADIENT_REFUSED ||
                              row->gradient == MP_GRADIENT_VIEW || row->gradient == MP_GRADIENT_ALIAS;
        for (int r = 0; r < MP_N_RULES; r++)
            for (int i = 0; i < MP_GRADIENTS_MAX; i++) {
                if (row->needs[r][i] != MP_UNBUILT && impossible(row, row->needs[r][i]))
                    fail_msg("%s needs what it does not have", row->name);
                if (free_of_values && row->needs[r][i]) fail_msg("%s needs values for no gradient", row->name);
            }
        if ((row->traits & MP_TRAIT_NEGATES) && row->gradient != MP_GRADIENT_ALIAS) fail_msg("%s negates nothing", row->name);
        if ((row->traits & MP_TRAIT_RANDOM) && row->fold) fail_msg("%s draws numbers and is folded", row->name);
    }
}

TEST(needs_of_later_inputs_are_those_of_the_last_stated)
{
    const mp_op *mul = mp_op_find("", "Mul", 14), *max = mp_op_find("", "Max", 13), *lstm = mp_op_find("", "LSTM", 14);
    assert_int_equal(mul->needs[MP_RULES_EXECUTOR][0], MP_IN(1));
    for (int k = 1; k < MP_GRADIENTS_MAX; k++) assert_int_equal(mul->needs[MP_RULES_EXECUTOR][k], MP_IN(0));
    for (int k = 0; k < MP_GRADIENTS_MAX; k++) assert_int_equal(max->needs[MP_RULES_PYTORCH][k], MP_INPUTS);
    assert_int_equal(lstm->needs[MP_RULES_EXECUTOR][4], 0);
    assert_int_equal(lstm->needs[MP_RULES_EXECUTOR][7], MP_IN(2) | MP_IN(4) | MP_IN(6) | MP_IN(7) | MP_EXTRA(0));
}

/* A tensor's role as a weight and its initial values follow from the operands that read it. A row without this information
 * would silently use the default. */
TEST(every_operand_says_what_it_is_for)
{
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        for (int i = 0; i < 2 * MP_OP_INPUTS; i++) {
            mp_op_input operand = mp_op_input_of(row, i);
            bool there = row->max_in < 0 || i < row->max_in;
            if (there != (operand.use != MP_USE_UNSTATED) || there != (operand.initial != MP_INITIAL_UNSTATED))
                fail_msg("%s: operand %d is %s", row->name, i, there ? "not stated" : "stated and not there");
            if ((operand.use == MP_USE_NONE) != (operand.initial == MP_INITIAL_NONE))
                fail_msg("%s: operand %d is never trained, or is it?", row->name, i);
            if (i > 0 && operand.use == MP_USE_THROUGH) fail_msg("%s: only input 0 is looked through", row->name);
        }
    }
    assert_int_equal(mp_op_input_of(NULL, 0).use, MP_USE_UNSTATED);
    assert_int_equal(mp_op_input_of(mp_op_row(0), -1).use, MP_USE_UNSTATED);
    assert_int_equal(mp_op_input_of(mp_op_find("", "Einsum", 12), 1).use, MP_USE_WEIGHT);
    assert_int_equal(mp_op_input_of(mp_op_find("", "Einsum", 12), 100).use, MP_USE_OTHER);
}

TEST(layouts_go_with_what_gradients_say)
{
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        const unsigned elementwise = MP_TRAIT_IN_PLACE | MP_TRAIT_GRADIENT_IN_PLACE;
        if ((row->gradient == MP_GRADIENT_VIEW) != (row->layout == MP_HABIT_FROM_ROW_MAJOR))
            fail_msg("%s: a view, and only that, reads its input row-major", row->name);
        if ((row->traits & elementwise) == elementwise && row->layout == MP_HABIT_ROW_MAJOR)
            fail_msg("%s overwrites element by element: it works in any layout", row->name);
    }
}

/* Returns whether an operator of two numbers is commutative, by its fold rule on a few numbers. */
static bool commutes(const mp_op *row)
{
    static const int numbers[] = {0, 1, 2, 5};
    bool same = true;
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < a; b++) {
            char inputs[64];
            double y[2];
            if (row->requirements->types == MP_TYPES_BOOL && a > 1) continue;
            const char *type = row->requirements->types == MP_TYPES_BOOL ? "bool" : "int64";
            for (int order = 0; order < 2; order++) {
                snprintf(inputs, sizeof inputs, "%s[1]={%d} %s[1]={%d}", type, numbers[order ? b : a], type,
                         numbers[order ? a : b]);
                mp_model *model = rule_model(&(rule_case){row->name, 24, inputs, "direction=LEFT", ""}, 1);
                const mp_value *value = mp_operator_out(model, &model->operators[0], 0)->value;
                y[order] = !value ? -1 : value->is_real ? value->f[0] : (double)value->i[0]; /* -1: division by zero */
                mp_model_free(model);
            }
            same = same && y[0] == y[1];
        }
    return same;
}

TEST(operators_commute_that_say_so)
{
    int n = 0;
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        bool says = row->traits & MP_TRAIT_COMMUTES, two = row->max_in == 2 || row->max_in < 0;
        if (two && (row->fold == mp_op_find("", "Add", 13)->fold || row->fold == mp_op_find("", "Sum", 13)->fold)) {
            if (commutes(row) != says)
                fail_msg("%s %s", row->name, says ? "does not commute" : "commutes, and does not say so");
            n += says;
        } else if (says) {
            fail_msg("%s says that it commutes, and nothing shows it", row->name);
        }
    }
    assert_true(n >= 13);
}

TEST(extras_have_a_type)
{
    static const rule_case cases[] = {
        {"Dropout", 13, "float16[4,10]", "", ""},
        {"MaxPool", 12, "float16[1,2,32,32]", "kernel_shape=[2,2]", ""},
        {"MaxPool", 12, "float32[1,2,32,32]", "kernel_shape=[17,17]", ""},
        {"GlobalMaxPool", 1, "float32[4,3,7,7]", "", ""},
        {"BatchNormalization", 15, "float16[2,3,4,5] float32[3] float32[3] float32[3] float32[3]", "", ""},
        {"memplan:BatchNormalizationRelu", 1, "float16[2,3,5] float32[3] float32[3] float32[3] float32[3]", "", ""},
        {"memplan:BatchNormalizationAddRelu", 1, "float16[2,3] float32[3] float32[3] float32[3] float32[3] float16[2,3]", "",
         ""},
        {"LayerNormalization", 17, "float64[2,3,4,5] float64[5]", "", ""},
        {"memplan:LayerNormalization", 1, "float16[2,3,5]", "", ""},
        {"RMSNormalization", 23, "float64[2,3,4] float64[4]", "", ""},
        {"memplan:RMSNormalization", 1, "float16[2,3,5]", "", ""},
        {"SimplifiedLayerNormalization", 1, "float16[2,3,5] float16[5]", "", ""},
        {"com.microsoft:SimplifiedLayerNormalization", 1, "float16[2,3,5] float16[5]", "", ""},
        {"GroupNormalization", 21, "float16[2,6,4,5] float16[6] float16[6]", "num_groups=3", ""},
        {"InstanceNormalization", 6, "float32[2,6,4,5] float32[6] float32[6]", "", ""},
        {"LRN", 13, "bfloat16[1,3,1,1]", "size=3", ""},
        {"memplan:ScaledDotProductAttention", 1, "bfloat16[2,3,7,4] bfloat16[2,3,5,4] bfloat16[2,3,5,6]", "ratio=0.5", ""},
        {"LSTM", 14, "float16[5,2,3] float16[1,28,3] float16[1,28,7]", "", ""},
        {"GRU", 14, "float64[5,2,3] float64[1,21,3] float64[1,21,7]", "hidden_size=7", ""},
        {"RNN", 14, "float32[5,2,3] float32[1,7,3] float32[1,7,7]", "hidden_size=7", ""},
        {"SoftmaxCrossEntropyLoss", 13, "float16[4,10] int64[4]", "", ""},
        {"memplan:SoftmaxCrossEntropyPart", 1, "float16[4,10] int64[4]", "", ""},
        {"ReduceMax", 13, "float16[4,10]", "axes=1", ""},
        {"ReduceMin", 13, "float16[4,10]", "axes=1", ""},
    };
    bool seen[256] = {false};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mp_model *model = rule_model(&cases[c], 1);
        const mp_operator *op = &model->operators[0];
        for (int rules = 0; rules < MP_N_RULES; rules++) {
            mp_extra extras[MP_EXTRAS_MAX] = {{0}};
            int n = op->op->extras(model, op, rules, extras);
            for (int e = 0; e < n; e++) {
                int bits = mp_dtype_bits(extras[e].dtype);
                if (bits < 8 || extras[e].bytes % (bits / 8)) fail_msg("%s: extra %s has no type", op->kind, extras[e].name);
            }
        }
        for (size_t k = 0; k < mp_op_count(); k++) seen[k] |= mp_op_row(k) == op->op;
        mp_model_free(model);
    }
    for (size_t k = 0; k < mp_op_count(); k++)
        if (mp_op_row(k)->extras && !seen[k]) fail_msg("%s has extras, and no case here", mp_op_row(k)->name);
}

TEST(rows_are_found_by_domain_name_and_version)
{
    assert_ptr_equal(mp_op_find("ai.onnx", "Relu", 13), mp_op_find("", "Relu", 1));
    assert_null(mp_op_find("", "Relu", 0));
    assert_null(mp_op_find("", "relu", 13));
    assert_null(mp_op_find("", "", 13));
    assert_null(mp_op_find("org.example", "Relu", 13));
    assert_null(mp_op_find("", "Gelu", 19));
    assert_non_null(mp_op_find("", "Gelu", 20));
    assert_non_null(mp_op_find("com.microsoft", "Gelu", 1));
    assert_ptr_not_equal(mp_op_find("com.microsoft", "Gelu", 20), mp_op_find("", "Gelu", 20));
}

TEST(the_promised_operators_are_there)
{
    static const char *const promised[] = {"LayerNormalization",
                                           "Gelu",
                                           "RMSNormalization",
                                           "SimplifiedLayerNormalization",
                                           "GroupNormalization",
                                           "InstanceNormalization",
                                           "LeakyRelu",
                                           "Elu",
                                           "PRelu",
                                           "Selu",
                                           "Softplus",
                                           "LogSoftmax",
                                           "LRN",
                                           "GlobalMaxPool",
                                           "ReduceSum",
                                           "ReduceMax",
                                           "ReduceMin",
                                           "ReduceProd",
                                           "ArgMax",
                                           "Min",
                                           "Max",
                                           "Exp",
                                           "Abs",
                                           "Identity",
                                           "Squeeze",
                                           "Tile",
                                           "GatherElements",
                                           "Einsum",
                                           "CumSum",
                                           "Trilu",
                                           "And",
                                           "Or",
                                           "Greater",
                                           "Less",
                                           "LSTM",
                                           "GRU",
                                           "Conv",
                                           "ConvTranspose",
                                           "Gemm",
                                           "MatMul",
                                           "BatchNormalization",
                                           "MaxPool",
                                           "AveragePool",
                                           "GlobalAveragePool",
                                           "Resize",
                                           "Concat",
                                           "Split",
                                           "Slice",
                                           "Gather",
                                           "Reshape",
                                           "Flatten",
                                           "Transpose",
                                           "Unsqueeze",
                                           "Expand",
                                           "Pad",
                                           "Softmax",
                                           "Dropout",
                                           "Shape",
                                           "ConstantOfShape",
                                           "Range",
                                           "Where",
                                           "Equal",
                                           "Cast",
                                           "Constant",
                                           "Erf",
                                           "Pow",
                                           "Sqrt",
                                           "Not"};
    for (size_t k = 0; k < sizeof promised / sizeof *promised; k++)
        if (!mp_op_find("", promised[k], 24)) fail_msg("%s has no row", promised[k]);
}

TEST(products_of_dimensions_saturate)
{
    const int64_t dims[] = {INT64_C(1) << 40, 3, INT64_C(1) << 40, 0};
    assert_int_equal(mp_product(dims, 0, 0), 1);
    assert_int_equal(mp_product(dims, 1, 2), 3);
    assert_int_equal(mp_product(dims, 0, 3), INT64_MAX);
    assert_int_equal(mp_product(dims, 0, 4), 0);
}
