/* The registry: every row is whole and consistent, rows are found by name and version, and the operators that people were
 * promised are there. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "estimator/model/ops.h"

static void every_row_is_whole(void **state)
{
    (void)state;
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

/* The bits of a need that name an input, output or extra which the operator does not have. */
static uint32_t impossible(const mp_op *row, uint32_t need)
{
    uint32_t possible = row->max_in < 0 || row->max_in > 1 ? MP_SELF : 0;
    for (int k = 0; k < 8; k++) {
        if (row->max_in < 0 || k < row->max_in) possible |= MP_IN(k);
        if (row->max_out < 0 || k < row->max_out) possible |= MP_OUT(k);
        if (row->extras && k < MP_EXTRAS_MAX) possible |= MP_EXTRA(k);
    }
    return need & ~possible;
}

static void gradients_need_only_what_there_is(void **state)
{
    (void)state;
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        bool free_of_values = row->gradient == MP_GRADIENT_NONE || row->gradient == MP_GRADIENT_REFUSED ||
                              row->gradient == MP_GRADIENT_VIEW || row->gradient == MP_GRADIENT_ALIAS;
        for (int r = 0; r < MP_N_RULES; r++)
            for (int i = 0; i < MP_GRADIENTS_MAX; i++) {
                if (impossible(row, row->needs[r][i])) fail_msg("%s needs what it does not have", row->name);
                if (free_of_values && row->needs[r][i]) fail_msg("%s needs values for no gradient", row->name);
            }
        if ((row->traits & MP_TRAIT_NEGATES) && row->gradient != MP_GRADIENT_ALIAS) fail_msg("%s negates nothing", row->name);
        if ((row->traits & MP_TRAIT_RANDOM) && row->fold) fail_msg("%s draws numbers and is folded", row->name);
    }
}

static void needs_of_later_inputs_are_those_of_the_last_stated(void **state)
{
    (void)state;
    const mp_op *mul = mp_op_find("", "Mul", 14), *max = mp_op_find("", "Max", 13), *lstm = mp_op_find("", "LSTM", 14);
    assert_int_equal(mul->needs[MP_RULES_EXECUTOR][0], MP_IN(1));
    for (int k = 1; k < MP_GRADIENTS_MAX; k++) assert_int_equal(mul->needs[MP_RULES_EXECUTOR][k], MP_IN(0));
    for (int k = 0; k < MP_GRADIENTS_MAX; k++) assert_int_equal(max->needs[MP_RULES_PYTORCH][k], MP_SELF | MP_OUT(0));
    assert_int_equal(lstm->needs[MP_RULES_EXECUTOR][4], 0);
    assert_int_equal(lstm->needs[MP_RULES_EXECUTOR][7], MP_EXTRA(0));
}

static void rows_are_found_by_domain_name_and_version(void **state)
{
    (void)state;
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

static void the_promised_operators_are_there(void **state)
{
    (void)state;
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

static void products_of_dimensions_saturate(void **state)
{
    (void)state;
    const int64_t dims[] = {INT64_C(1) << 40, 3, INT64_C(1) << 40, 0};
    assert_int_equal(mp_product(dims, 0, 0), 1);
    assert_int_equal(mp_product(dims, 1, 2), 3);
    assert_int_equal(mp_product(dims, 0, 3), INT64_MAX);
    assert_int_equal(mp_product(dims, 0, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(gradients_need_only_what_there_is),
        cmocka_unit_test(needs_of_later_inputs_are_those_of_the_last_stated),
        cmocka_unit_test(rows_are_found_by_domain_name_and_version),
        cmocka_unit_test(the_promised_operators_are_there),
        cmocka_unit_test(products_of_dimensions_saturate),
    };
    return cmocka_run_group_tests_name("estimator/ops", tests, NULL, NULL);
}
