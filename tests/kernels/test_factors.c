/* test_factors.c - operators split by each of their factors: every factor rule, and every operator with one. */
#include "estimator/model/ops_rules.h"
#include "estimator/rules/factors/factors.h"
#include "tests/cases/factor_case.h"
#include "tests/cases/rule_case.h"
#include "tests/cases/test.h"

#define CHECK_ALL(rows) \
    for (size_t row = 0; row < sizeof(rows) / sizeof *(rows); row++) factors_check(&(rows)[row])

TEST(products)
{
    static const factor_case rows[] = {
        {"MatMul", 13, "float32[4,6] float32[6,8]", "", 1, 3, 0},
        {"MatMul", 13, "float32[2,4,6] float32[6,8]", "", 1, 4, 0},
        {"MatMul", 13, "float32[2,1,4,6] float32[4,6,8]", "", 1, 5, 0},
        {"MatMul", 13, "float32[6] float32[6,8]", "", 1, 0, 0}, /* vectors stay whole */
        {"com.microsoft:FusedMatMul", 1, "float32[2,6,4] float32[2,8,6]", "transA=1 transB=1 alpha=0.5", 1, 4, 0},
        {"com.microsoft:FusedMatMul", 1, "float32[4,2,6] float32[4,2,6]", "transBatchA=1 transB=1 transBatchB=1", 1, 0, 0},
        {"memplan:FusedMatMul", 1, "float32[2,4,6] float32[8,6] float32[8]", "transB=1", 1, 4, 0},
        {"memplan:FusedMatMul", 1, "float32[2,4,6] float32[6,8] float32[8]", "", 1, 4, 0},
        {"Gemm", 13, "float32[4,6] float32[6,8] float32[8]", "alpha=0.5 beta=2.0", 1, 3, 0},
        {"Gemm", 13, "float32[6,4] float32[8,6] float32[4,1]", "transA=1 transB=1", 1, 3, 0},
        {"Gemm", 13, "float32[4,6] float32[6,8] float32[4,8]", "", 1, 3, 0},
        {"Gemm", 13, "float32[4,6] float32[6,8] float32[]", "", 1, 3, 0}};
    CHECK_ALL(rows);
}

TEST(convolutions)
{
    static const factor_case rows[] = {
        {"Conv", 11, "float32[2,6,5,5] float32[4,6,3,3] float32[4]", "", 1, 3, 0},
        {"Conv", 11, "float32[2,6,5] float32[4,6,3]", "pads=[1,1] strides=[2]", 1, 3, 0},
        {"Conv", 11, "float32[2,4,5,5] float32[4,1,3,3] float32[4]", "group=4", 1, 2, 0},
        {"Conv", 11, "float32[2,4,5,5] float32[8,1,3,3] float32[8]", "group=4", 1, 2, 0}, /* two filters per channel */
        {"Conv", 11, "float32[2,4,5,5] float32[4,2,3,3]", "group=2", 1, 1, 0},
        {"ConvTranspose", 11, "float32[2,6,5,5] float32[6,4,3,3] float32[4]", "", 1, 3, 0},
        {"ConvTranspose", 11, "float32[2,4,5,5] float32[4,1,3,3]", "group=4", 1, 1, 0}};
    CHECK_ALL(rows);
}

TEST(attention)
{
    const char *const kind = "memplan:ScaledDotProductAttention";
    const factor_case rows[] = {
        {kind, 1, "float32[2,4,3,4] float32[2,4,5,4] float32[2,4,5,3]", "scale=0.5", 1, 2, 7},
        {kind, 1, "float32[2,4,3,4] float32[2,4,4,5] float32[2,4,5,3]", "transK=1", 1, 2, 7},
        {kind, 1, "float32[4,3,4] float32[4,5,4] float32[4,5,3]", "", 1, 1, 7},
        {kind, 1, "float32[2,3,4,6] float32[2,5,4,6] float32[2,5,4,2]",
         "permQ=[0,2,1,3] permK=[0,2,1,3] permV=[0,2,1,3] permY=[0,2,1,3]", 1, 2, 7},
        {kind, 1, "float32[2,4,3,4] float32[2,4,5,4] float32[2,4,5,3] float32[2,1,3,5]", "", 1, 2, 7},
        {kind, 1, "float32[2,4,3,4] float32[2,4,5,4] float32[2,4,5,3] float32[4,3,5]", "", 1, 2, 7},
        {kind, 1, "float32[2,4,3,4] float32[2,4,5,4] float32[2,4,5,3] - bool[3,5]={1,0,1,1,0,0,1,1,1,0,1,0,0,0,0}", "fill=-3.0",
         1, 2, 7}};
    CHECK_ALL(rows);
}

/* The CPU has no kernel for heads that share keys. Head h of Q uses head h / groups of K and V. If 8 and 4 heads are split into
 * equally many contiguous parts, each rank has the key heads for its query heads. */
TEST(heads_that_share_keys_are_split_with_them)
{
    const rule_case c = {"memplan:ScaledDotProductAttention", 1, "float32[2,8,3,4] float32[2,4,3,4] float32[2,4,3,3]",
                         "causal=1 groups=2", ""};
    mp_model *model = rule_model(&c, 1);
    mp_operand_factors f;
    const mp_operator *op = &model->operators[0];
    assert_true(op->op->factors(model, op, &f));
    for (int k = 1; k < 3; k++) assert_memory_equal(f.in[k], f.in[0], 4 * sizeof(int));
    assert_memory_equal(f.out[0], f.in[0], 4 * sizeof(int));
    assert_true(f.in[0][0] > 0 && f.in[0][1] > 0 && f.in[0][0] != f.in[0][1] && !f.in[0][2] && !f.in[0][3]);
    mp_model_free(model);
}

TEST(lines)
{
    static const factor_case rows[] = {
        {"Softmax", 13, "float32[2,4,6]", "", 1, 2, 0},
        {"Softmax", 13, "float32[2,4,6]", "axis=1", 1, 2, 0},
        {"Softmax", 11, "float32[2,4,6]", "", 1, 1, 0}, /* flattened from the axis on, which is 1 */
        {"Softmax", 11, "float32[2,4,6]", "axis=2", 1, 2, 0},
        {"LogSoftmax", 13, "float32[2,4,6]", "axis=-1", 1, 2, 0},
        {"LogSoftmax", 1, "float32[2,4,6]", "axis=1", 1, 1, 0},
        {"memplan:SafeSoftmax", 1, "float32[2,4,6]", "axis=1", 1, 2, 0},
        {"LayerNormalization", 17, "float32[2,4,6] float32[6] float32[6]", "", 1, 2, 0},
        {"LayerNormalization", 17, "float32[2,4,6] float32[4,6]", "axis=1", 1, 1, 0},
        {"memplan:LayerNormalization", 1, "float32[2,4,6]", "", 1, 2, 0},
        {"RMSNormalization", 23, "float32[2,4,6] float32[6]", "axis=-1", 1, 2, 0},
        {"memplan:RMSNormalization", 1, "float32[2,4,6]", "", 1, 2, 0},
        {"SimplifiedLayerNormalization", 1, "float32[2,4,6] float32[6]", "axis=-1", 1, 2, 0},
        {"com.microsoft:SimplifiedLayerNormalization", 1, "float32[2,4,6] float32[6]", "axis=-1", 1, 2, 0}};
    CHECK_ALL(rows);
}

TEST(channels_of_batch_normalization)
{
    static const factor_case rows[] = {
        {"BatchNormalization", 15, "float32[2,4,3,3] float32[4] float32[4] float32[4] float32[4]", "training_mode=1", 1, 1, 7},
        {"BatchNormalization", 15, "float32[2,4,3,3] float32[4] float32[4] float32[4] float32[4]={1,2,3,4}", "", 1, 1, 7},
        {"BatchNormalization", 15, "float32[2,4,3,3] float32[4] float32[4] float32[4] float32[4]", "training_mode=1", 3, 1, 7}};
    CHECK_ALL(rows);
}

TEST(images)
{
    static const factor_case rows[] = {{"MaxPool", 12, "float32[2,4,6,6]", "kernel_shape=[2,2] strides=[2,2]", 1, 2, 0},
                                       {"MaxPool", 12, "float32[2,4,6,6]", "kernel_shape=[2,2]", 2, 2, 0},
                                       {"AveragePool", 11, "float32[2,4,6,6]", "kernel_shape=[3,3] pads=[1,1,1,1]", 1, 2, 0},
                                       {"LpPool", 11, "float32[2,4,6,6]", "kernel_shape=[2,2]", 1, 2, 0},
                                       {"GlobalAveragePool", 1, "float32[2,4,6,6]", "", 1, 2, 0},
                                       {"GlobalMaxPool", 1, "float32[2,4,6,6]", "", 1, 2, 0},
                                       {"GlobalLpPool", 2, "float32[2,4,6,6]", "", 1, 2, 0},
                                       {"Resize", 19, "float32[2,4,3,3] - float32[4]={1,1,2,2}", "mode=linear", 1, 2, 0},
                                       {"Resize", 19, "float32[2,4,3,3] - - int64[4]={2,4,5,6}", "mode=nearest", 1, 2, 0},
                                       {"Resize", 19, "float32[2,4,3,3] - float32[4]={1,2,2,2}", "mode=linear", 1, 1,
                                        0}, /* interpolates between channels as well */
                                       {"Upsample", 9, "float32[2,4,3,3] float32[4]={1,1,2,2}", "mode=nearest", 1, 2, 0}};
    CHECK_ALL(rows);
}

TEST(what_is_broadcast)
{
    static const factor_case rows[] = {
        {"Add", 14, "float32[2,4,6] float32[2,4,6]", "", 1, 3, 0},
        {"Add", 14, "float32[2,4,6] float32[6]", "", 1, 3, 0},
        {"Sub", 14, "float32[4,1] float32[2,1,6]", "", 1, 3, 0},
        {"Mul", 14, "float32[2,4,6] float32[4,1]", "", 1, 3, 0},
        {"Div", 14, "float32[2,4,6] float32[]={3}", "", 1, 3, 0},
        {"Pow", 15, "float32[2,4,6] float32[]={2}", "", 1, 3, 0},
        {"Pow", 15, "float32[4,6]={1,2,3,4,5,6,1,2,3,4,5,6,1,2,3,4,5,6,1,2,3,4,5,6} float32[4,1]={1,2,3,2}", "", 1, 2, 3},
        {"PRelu", 16, "float32[2,4,6] float32[4,1]", "", 1, 3, 0},
        {"Mod", 13, "float32[2,4,6] float32[]={3}", "fmod=1", 1, 3, 1},
        {"BitShift", 11, "uint8[4,6] uint8[6]", "direction=LEFT", 1, 2, 0},
        {"And", 7, "bool[4,6] bool[6]", "", 1, 2, 0},
        {"Or", 7, "bool[4,6] bool[4,6]", "", 1, 2, 0},
        {"Xor", 7, "bool[4,6] bool[4,1]", "", 1, 2, 0},
        {"Equal", 13, "int64[4,6] int64[6]", "", 1, 2, 0},
        {"Greater", 13, "float32[4,6] float32[6]", "", 1, 2, 0},
        {"Less", 13, "float32[4,6] float32[4,6]", "", 1, 2, 0},
        {"GreaterOrEqual", 16, "float32[4,6] float32[6]", "", 1, 2, 0},
        {"LessOrEqual", 16, "float32[4,6] float32[6]", "", 1, 2, 0},
        {"Sum", 13, "float32[4,6] float32[6] float32[4,1]", "", 1, 2, 0},
        {"Mean", 13, "float32[4,6] float32[4,6] float32[6]", "", 1, 2, 0},
        {"Max", 13, "float32[4,6] float32[6]", "", 1, 2, 0},
        {"Min", 13, "float32[4,6] float32[6] float32[4,1]", "", 1, 2, 0},
        {"Where", 16, "bool[4,6] float32[6] float32[2,4,1]", "", 1, 3, 0},
        {"Clip", 13, "float32[2,4,6] float32[]={-0.5} float32[]={0.25}", "", 1, 3, 1},
        {"memplan:Clip", 1, "float32[2,4,6] float32[]={-0.5} float32[]={0.25}", "", 1, 3, 1},
        {"Dropout", 13, "float32[2,4,6]", "", 1, 3, 0}, /* exported form, which passes all elements */
        {"Expand", 13, "float32[2,1,6] int64[3]={2,4,6}", "", 1, 2, 0},
        {"Expand", 13, "float32[4,2] int64[2]={4,2}", "", 1, 2, 0}, /* as many sizes as the last dimension */
        {"com.microsoft:BiasGelu", 1, "float32[2,4,6] float32[6]", "", 1, 3, 0},
        {"com.microsoft:FastGelu", 1, "float32[2,4,6] float32[6]", "", 1, 3, 0}};
    CHECK_ALL(rows);
}

/* Operators without a separate CPU kernel: the GPU's backend fuses them, or other code computes them. */
static const char *const without[] = {"AllToAll",
                                      "Not",
                                      "BitwiseNot",
                                      "IsNaN",
                                      "IsInf",
                                      "CastLike",
                                      "BitwiseAnd",
                                      "BitwiseOr",
                                      "BitwiseXor",
                                      "BatchNormalizationRelu",
                                      "BatchNormalizationAddRelu"};

static bool has_kernel(const mp_op *op)
{
    for (size_t k = 0; k < sizeof without / sizeof *without; k++)
        if (!strcmp(op->name, without[k])) return false;
    return true;
}

TEST(every_operator_of_one_operand)
{
    int n = 0;
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *op = mp_op_row(k);
        char kind[96];
        if (op->factors != mp_factors_broadcast || op->max_in != 1 || !has_kernel(op)) continue;
        snprintf(kind, sizeof kind, "%s%s%s", op->domain, *op->domain ? ":" : "", op->name);
        factors_check(
            &(factor_case){kind, *op->domain ? 1 : 24, "float32[2,4,6]", strcmp(kind, "Cast") ? "" : "to=1", 1, 3, 0});
        n++;
    }
    if (n < 40) fail_msg("%d operators", n);
}

TEST(what_is_moved)
{
    static const factor_case rows[] = {
        {"Transpose", 13, "float32[2,4,6]", "perm=[2,0,1]", 1, 3, 0},
        {"Transpose", 13, "float32[2,4,6]", "", 1, 3, 0},
        {"Concat", 13, "float32[2,4,6] float32[2,8,6]", "axis=1", 1, 3, 0},
        {"Concat", 13, "float32[4,6] float32[4,2] float32[4,4]", "axis=-1", 1, 2, 0},
        {"Concat", 13, "float32[4,1] float32[4,1] float32[4,6]", "axis=1", 1, 1, 0}, /* pieces of one column cannot be split */
        {"Split", 13, "float32[2,12,6] int64[3]={4,4,4}", "axis=1", 3, 3, 0},
        {"Split", 13, "float32[4,6] int64[2]={2,4}", "axis=1", 2, 2, 0},
        {"Split", 13, "float32[4,8] int64[3]={1,1,6}", "axis=1", 3, 1, 0},
        {"Slice", 13, "float32[4,12] int64[1]={4} int64[1]={8} int64[1]={1}", "", 1, 2, 0},
        {"Slice", 13, "float32[4,6,8] int64[2]={0,2} int64[2]={4,6} int64[2]={0,2}", "", 1, 3, 0},
        {"Slice", 13, "float32[4,6] int64[1]={0} int64[1]={1} int64[1]={1}", "", 1, 1, 0}, /* the piece is on one rank */
        {"Gather", 13, "float32[8,6] int64[2,4]={0,1,2,3,7,5,7,0}", "", 1, 4, 0},
        {"Gather", 13, "float32[4,6,8] int64[4]={5,0,3,1}", "axis=1", 1, 3, 0},
        {"Gather", 13, "float32[4,6] int64[]={3}", "axis=-1", 1, 1, 0}};
    CHECK_ALL(rows);
}

TEST(reductions)
{
    static const factor_case rows[] = {{"ReduceSum", 13, "float32[2,4,6] int64[1]={1}", "", 1, 3, 0},
                                       {"ReduceSum", 13, "float32[2,4,6] int64[2]={-1,0}", "keepdims=0", 1, 3, 0},
                                       {"ReduceSum", 13, "float32[2,4,6]", "", 1, 3, 0},
                                       {"ReduceSum", 13, "float32[2,4,6]", "noop_with_empty_axes=1", 1, 3, 0},
                                       {"ReduceMean", 18, "float32[2,4,6] int64[1]={2}", "", 1, 3, 0},
                                       {"ReduceMean", 13, "float32[2,4,6]", "axes=[0,1] keepdims=0", 1, 3, 0},
                                       {"ReduceMax", 13, "float32[2,4,6]", "axes=[1]", 1, 2, 0},
                                       {"ReduceMin", 13, "float32[2,4,6]", "axes=[1] keepdims=0", 1, 2, 0}};
    CHECK_ALL(rows);
}

/* Excludes class weights and ignored labels, where a mean divides by the sum of the weights. */
TEST(losses)
{
    static const factor_case rows[] = {
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1}", "", 1, 1, 1},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3,2] int64[4,2]={2,0,1,1,0,0,2,1}", "reduction=sum", 1, 2, 1},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,3] int64[4]={2,0,1,1}", "reduction=none", 1, 1, 1},
        {"memplan:SoftmaxCrossEntropyPart", 1, "float32[4,3] int64[4]={2,0,1,1} - int64[6]={2,0,1,1,0,2}", "", 1, 0, 1},
        {"NegativeLogLikelihoodLoss", 13, "float32[4,3] int64[4]={2,0,1,1}", "", 1, 1, 1},
        {"memplan:MeanSquaredError", 1, "float32[4,6] float32[4,6]", "", 1, 2, 0},
        {"memplan:HuberLoss", 1, "float32[4,6] float32[4,6]", "delta=0.7", 1, 2, 0},
        {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[4,6] float32[4,6]", "", 1, 2, 0}};
    CHECK_ALL(rows);
}

/* Must run after all other tests. */
TEST(no_rule_is_left_out)
{
    for (size_t k = 0; k < mp_op_count(); k++) {
        const mp_op *op = mp_op_row(k);
        if (op->factors && factors_were_checked(op) != has_kernel(op)) fail_msg("%s of '%s'", op->name, op->domain);
    }
}
