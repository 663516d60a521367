/* test_requirements.c - requirements of the operator table's rows: each kind is met, and violated by one, following ONNX's
 * operator descriptions. */
#include "estimator/model/ops.h"
#include "estimator/model/requirement.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"

#define CHECK(...)                                       \
    do {                                                 \
        const rule_case cases[] = {__VA_ARGS__};         \
        rule_check(cases, sizeof cases / sizeof *cases); \
    } while (0)

TEST(element_types_are_those_of_the_row)
{
    CHECK({"Tanh", 13, "int32[2]", "", "!'in0' has the type int32, but the operator needs floating-point numbers"},
          {"Relu", 14, "bool[2]", "", "!has the type bool, but the operator needs numbers"},
          {"And", 7, "bool[2] int64[2]", "", "!'in1' has the type int64, but the operator needs bool"},
          {"BitwiseOr", 18, "float32[2] float32[2]", "", "!the operator needs whole numbers"},
          {"MatMulInteger", 10, "int32[2,2] int32[2,2]", "", "!the operator needs 8-bit whole numbers"},
          {"Gather", 13, "float32[5] float32[2]", "", "!'in1' has the type float32, but the operator needs int32 or int64"},
          {"Transpose", 13, "string[2,3]", "", "!the operator needs numbers or bool"},
          {"Add", 14, "float32[2] float16[2]", "", "!'in1' has the type float16, but 'in0' has float32"},
          {"Sum", 13, "float32[2] float32[2] int64[2]", "", "!'in2' has the type int64, but 'in0' has float32"},
          {"Where", 16, "bool[2] float32[2] float64[2]", "", "!'in2' has the type float64, but 'in1' has float32"},
          {"Upsample", 9, "float32[1,1,2,2] float8e4m3fn[4]={1,1,2,2}", "",
           "!'in1' has the type float8e4m3fn, but the operator needs floating"},
          {"Pow", 15, "float32[2] int64[2]", "", "float32[2]"});
}

TEST(operands_that_are_numbers_or_lists)
{
    CHECK({"Clip", 13, "float32[2,3] float32[] float32[1]", "", "float32[2,3]"},
          {"Clip", 13, "float32[2,3] - float32[2]", "", "!'in2' [2] must be a single number"},
          {"Dropout", 13, "float32[2] float32[2]", "", "!'in1' [2] must be a single number"},
          {"CumSum", 14, "float32[2,3] int64[2]", "", "!must be a single number"},
          {"Slice", 13, "float32[4] int64[1,1]={0} int64[1]={2}", "", "!'in1' [1, 1] must be a list"},
          {"ReduceSum", 13, "float32[2,3] int64[1,1]={0}", "", "!must be a list"},
          {"OneHot", 11, "int64[3] int64[]={4} float32[3]", "", "!must contain two values"});
}

TEST(ranks_and_sizes)
{
    CHECK({"Trilu", 14, "float32[3]", "", "!has 1 dimensions instead of 2 to "},
          {"InstanceNormalization", 6, "float32[2,4] float32[4] float32[4]", "", "!has 2 dimensions instead of 3 to "},
          {"InstanceNormalization", 6, "float32[2,4,3] float32[1] float32[4]", "",
           "!'in1' [1] must have one element per position along dimension 1 of 'in0' [2, 4, 3]"},
          {"InstanceNormalization", 6, "float32[2,4,3] float32[4] float32[4]", "", "float32[2,4,3]"},
          {"PRelu", 16, "float32[2,3] float32[2]", "", "!'in1' [2] cannot be broadcast to 'in0' [2, 3]"},
          {"PRelu", 16, "float32[3] float32[2,3]", "", "!cannot be broadcast to"},
          {"MatMul", 13, "float32[0,2,3] float32[3]", "", "!'in0' [0, 2, 3] has no elements"},
          {"Softmax", 13, "float32[0,3]", "", "!has no elements"},
          {"Concat", 13, "float32[0,3] float32[2,3]", "axis=0", "float32[2,3]"},
          {"GlobalMaxPool", 1, "float32[1,2,0]", "", "!has no elements"},
          {"ReverseSequence", 10, "float32[3,2] int64[3]", "", "!3 lengths are given for 2 sequences"},
          {"ReverseSequence", 10, "float32[3,2] int64[3]", "batch_axis=0 time_axis=1", "float32[3,2]"},
          {"ReverseSequence", 10, "float32[3,2] int64[2]", "batch_axis=0", "!batch_axis and time_axis are both 0"});
}

TEST(axes_are_there)
{
    CHECK({"Softmax", 13, "float32[2,3]", "axis=2", "!there is no axis 2 in 2 dimensions"},
          {"Softmax", 13, "float32[2,3]", "axis=-2", "float32[2,3]"},
          {"Softmax", 13, "float32[]", "", "!there is no axis -1 in 0 dimensions"},
          {"Softmax", 12, "float32[3]", "", "!there is no axis 1 in 1 dimensions"}, /* the default of that version */
          {"Softmax", 13, "float32[3]", "", "float32[3]"},
          {"LpNormalization", 1, "float32[2,3]", "axis=-3", "!there is no axis -3"},
          {"memplan:SafeSoftmax", 1, "float32[2,3]", "axis=5", "!there is no axis 5"},
          {"MeanVarianceNormalization", 13, "float32[2,3]", "axes=[0,2]", "!there is no axis 2"},
          {"MeanVarianceNormalization", 13, "float32[2]", "", "!there is no axis 1"},
          {"MeanVarianceNormalization", 13, "float32[2,3]", "", "float32[2,3]"});
}

TEST(attributes_are_in_range)
{
    CHECK({"LpNormalization", 1, "float32[2,3]", "p=3", "!p is 3, but it must be in 1 .. 2"},
          {"LRN", 13, "float32[1,3,2]", "size=0", "!size is 0"},
          {"LRN", 13, "float32[1,3,2]", "size=4611686018427387904", "!size is 4611686018427387904"},
          {"Split", 18, "float32[4]", "num_outputs=0", "!num_outputs is 0"},
          {"LSTM", 14, "float32[5,2,3] float32[1,28,3] float32[1,28,7]", "layout=2", "!layout is 2"},
          {"GroupNormalization", 21, "float32[2,4,3] float32[4] float32[4]", "num_groups=3",
           "!num_groups is 3, but it must divide 4"},
          {"GroupNormalization", 21, "float32[2,4,3] float32[4] float32[4]", "num_groups=0", "!num_groups is 0"},
          {"GroupNormalization", 21, "float32[2,4,3] float32[4] float32[4]", "", "!num_groups is not given"},
          {"GroupNormalization", 21, "float32[2,4,3] float32[2] float32[2]", "num_groups=2",
           "!2 elements for 4 channels in 2 groups"},
          {"GroupNormalization", 18, "float32[2,4,3] float32[2] float32[2]", "num_groups=2", "float32[2,4,3]"},
          {"GroupNormalization", 18, "float32[2,4,3] float32[2] float32[4]", "num_groups=2", "!have different lengths"});
}

TEST(words_are_known)
{
    CHECK({"Pad", 13, "float32[2,3] int64[4]={0,0,0,1}", "mode=mirror",
           "!mode is 'mirror', but it must be one of: constant reflect"},
          {"Pad", 13, "float32[2,3] int64[4]={0,0,0,1}", "mode=edge", "float32[2,4]"},
          {"DepthToSpace", 13, "float32[1,4,1,1]", "blocksize=2 mode=DC", "!mode is 'DC'"}, /* a prefix of a valid mode */
          {"DepthToSpace", 13, "float32[1,4,1,1]", "blocksize=2 mode=CRD", "float32[1,1,2,2]"},
          {"BitShift", 11, "uint8[2] uint8[2]", "direction=UP", "!direction is 'UP'"});
}

TEST(indices_reach_only_what_is_there)
{
    CHECK({"GatherElements", 13, "float32[2,3] int64[2,5]", "axis=1", "float32[2,5]"},
          {"GatherElements", 13, "float32[2,3] int64[3,3]", "axis=1", "!are larger than 'in0' [2, 3] along dimension 0"},
          {"ScatterElements", 18, "float32[2,3] int64[1,3] float32[1,3]", "axis=1", "float32[2,3]"},
          {"ScatterElements", 18, "float32[2,3] int64[3,3] float32[3,3]", "axis=1", "!are larger than"},
          {"ScatterElements", 18, "float32[2,3] int64[1,3] float32[1,2]", "axis=1",
           "!have the shape [1, 2], but they must have [1, 3]"},
          {"ScatterElements", 18, "float32[2,3] int64[3] float32[3]", "",
           "!data of 2 dimensions do not fit indices of 1 dimensions"},
          {"ScatterND", 18, "float32[4,3] int64[2,1] float32[2,3]", "", "float32[4,3]"},
          {"ScatterND", 18, "float32[4,3] int64[2,1] float32[2,2]", "", "!have the shape [2, 2], but they must have [2, 3]"},
          {"ScatterND", 18, "float32[4,3] int64[2,3] float32[2]", "", "!do not fit data of 2 dimensions"},
          {"GatherND", 13, "float32[2,3] int64[3,1]", "batch_dims=1", "!differ in batch dimension 0"});
}

/* Only operators that do not compute with their operand's elements accept every type. */
TEST(every_row_with_operands_requires_something)
{
    static const char *const anything[] = {"Identity", "Cast", "CastLike", "Shape", "Size", "Reorder"};
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *row = mp_op_row(k);
        bool exempt = row->max_in == 0;
        for (size_t i = 0; i < sizeof anything / sizeof *anything; i++) exempt = exempt || !strcmp(row->name, anything[i]);
        if (exempt == !!row->requirements) fail_msg("%s %s", row->name, exempt ? "requires something" : "requires nothing");
        for (const mp_requirement *r = row->requirements; r && r->kind; r++) {
            assert_true(r->operand < (row->max_in < 0 ? MP_OP_INPUTS : row->max_in));
            assert_true(r->other < (row->max_in < 0 ? MP_OP_INPUTS : row->max_in));
        }
    }
}
