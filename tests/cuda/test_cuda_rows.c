/* test_cuda_rows.c - the GPU's normalizations, softmaxes, losses, reductions and attention, run on the host by their twin. They
 * are compared with the CPU's on equal values, and pass the CPU kernels' tests. */
#include "tests/cases/test.h"
#include "tests/cases/twin_case.h"

#define N_OF(a) (sizeof(a) / sizeof *(a))

TEST(normalizations_agree_with_the_cpu)
{
    const kernel_case cases[] = {
        /* rows shared by several threads: short, long, few */
        {"LayerNormalization", 17, "float32[40,33] float32[33] float32[33]", "", 3, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[40,1100] float32[1100] float32[1100]", "", 1, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[3,2000] float32[2000]", "", 3, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[5,9,4,6] float32[4,6] float32[4,6]", "axis=-2", 1, 0, 0, 0, 0, 0},
        /* rows kept in a warp's registers, with partially filled or empty lanes; and rows one vector too long for this */
        {"LayerNormalization", 17, "float32[40,768] float32[768] float32[768]", "", 3, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[5,9,1024] float32[1024]", "", 1, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[33,256] float32[256] float32[256]", "", 1, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[70,8] float32[8] float32[8]", "", 3, 0, 0, 0, 0, 0},
        {"LayerNormalization", 17, "float32[40,1032] float32[1032] float32[1032]", "", 1, 0, 0, 0, 0, 0},
        /* more rows than blocks have warps, the last block partially filled */
        {"LayerNormalization", 17, "float32[2100,40] float32[40] float32[40]", "", 1, 0, 0, 0, 0, 0},
        {"RMSNormalization", 23, "float32[40,520] float32[520]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:RMSNormalization", 1, "float32[6,70,264]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:LayerNormalization", 1, "float32[40,33]", "", 1, 0, 0, 0, 0, 0},
        {"RMSNormalization", 23, "float32[40,700] float32[700]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:RMSNormalization", 1, "float32[2,70,40]", "", 1, 0, 0, 0, 0, 0},
        {"SimplifiedLayerNormalization", 1, "float32[40,96] float32[96]", "", 2, 0, 0, 0, 0, 0},
        {"GroupNormalization", 21, "float32[3,8,7,5] float32[8] float32[8]", "num_groups=4", 1, 0, 0, 0, 0, 0},
        {"GroupNormalization", 21, "float32[2,32,40,41] float32[32] float32[32]", "num_groups=8", 1, 0, 0, 0, 0, 0},
        {"InstanceNormalization", 6, "float32[3,20,9,8] float32[20] float32[20]", "", 1, 0, 0, 0, 0, 0},
        {"MeanVarianceNormalization", 13, "float32[3,5,6,7]", "", 1, 0, 0, 0, 0, 0},
        {"LpNormalization", 1, "float32[3,5,6,7]", "axis=1", 1, 0.1, 1, 0, 0, 0},
        {"LpNormalization", 1, "float32[40,70,130]", "p=1 axis=1", 1, 0.1, 1, 0, 0, 0},
        {"LRN", 13, "float32[2,9,4,5]", "size=4 alpha=0.3", 1, 0, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < N_OF(cases); k++) twin_check(&cases[k], true);
}

TEST(softmaxes_and_losses_agree_with_the_cpu)
{
    static const char *const shapes[] = {"float32[70,10]", "float32[3,5,600]", "float32[2,21,50,51]", "float32[2,9000]"};
    for (size_t k = 0; k < N_OF(shapes); k++) {
        kernel_case c = {.kind = "Softmax", .version = 13, .inputs = shapes[k], .n_outputs = 1, .low = -3, .high = 3};
        c.attributes = "axis=-1";
        twin_check(&c, true);
        c.attributes = "axis=1";
        twin_check(&c, true);
        c.kind = "LogSoftmax";
        twin_check(&c, true);
        c.kind = "memplan:SafeSoftmax";
        twin_check(&c, true);
        c.kind = "Hardmax";
        twin_check(&c, false);
        c.kind = "Softmax";
        c.version = 11;
        twin_check(&c, true);
    }
    const kernel_case losses[] = {
        {"SoftmaxCrossEntropyLoss", 13, "float32[70,10] int64[70]", "", 2, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[7,9000] int32[7] float32[9000]", "", 1, 0.2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[7,9000] int32[7]", "reduction=none", 2, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[1,5] int32[1] float32[5]", "", 2, 0.2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[2,600,9] int32[2,9]", "ignore_index=1", 2, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[2,4,50,51] int64[2,50,51]", "ignore_index=1", 2, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,5] int64[4]", "reduction=none", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[20000,3] int64[20000]", "reduction=sum", 1, -2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[7,9000] int32[7] float32[9000]", "label_smoothing=0.1", 2, 0.2, 2, 1, 0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[2,4,50,51] int64[2,50,51]", "ignore_index=1 label_smoothing=0.4", 1, -2, 2, 1,
         0, 0},
        {"SoftmaxCrossEntropyLoss", 13, "float32[4,5] int64[4] float32[5]", "label_smoothing=0.4 reduction=none", 2, 0.2, 2, 1,
         0, 0},
        {"NegativeLogLikelihoodLoss", 13, "float32[70,10] int64[70] float32[10]", "", 1, -2, -0.1, 1, 0, 0},
        {"memplan:MeanSquaredError", 1, "float32[30,20,31] float32[30,20,31]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:HuberLoss", 1, "float32[30,20,31] float32[30,20,31]", "delta=0.4 smooth=1", 1, 0, 0, 0, 0, 0},
        {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[30,20,31] float32[30,20,31]", "", 1, 0, 0, 0, 0, 0},
        {"memplan:BinaryCrossEntropyWithLogits", 1, "float32[30,20,31] float32[30,20,31] float32[31]", "", 1, 0, 0, 3, 0, 0},
    };
    for (size_t k = 0; k < N_OF(losses); k++) twin_check(&losses[k], true);
    for (size_t k = 0; k < N_OF(losses); k++)
        if (strstr(losses[k].kind, "Loss") && !strchr(losses[k].kind, ':')) twin_check_aligned_rows(&losses[k]);
}

TEST(reductions_agree_with_the_cpu)
{
    static const char *const kinds[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                                        "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
    static const char *const inputs[] = {"float32[3,5,7,11]", "float32[40,3000]", "float32[2,3,70,80]", "float32[90,70,3]"};
    static const char *const attributes[] = {"axes=[1,3]", "axes=[0] keepdims=0", "axes=[2,3]", ""};
    for (size_t k = 0; k < N_OF(kinds); k++)
        for (size_t s = 0; s < N_OF(inputs); s++) {
            kernel_case c = {kinds[k], 11, inputs[s], attributes[s], 1, 0.5, 1.5, 0, 0, 0};
            if (!strcmp(kinds[k], "ReduceProd")) c.low = 0.99, c.high = 1.01;
            twin_check(&c, true);
        }
    const kernel_case others[] = {
        {"ArgMax", 13, "float32[3,5,7,11]", "axis=1", 1, 0, 0, 0, 0, 0},
        {"ArgMin", 13, "float32[3,6000]", "axis=1 keepdims=0", 1, 0, 0, 0, 0, 0},
        {"ArgMax", 13, "int64[70,80]", "axis=1 select_last_index=1", 1, 0, 0, 0, 0, 0},
        {"ArgMax", 13, "int32[70,80]", "axis=0", 1, 0, 0, 0, 0, 0},
        {"ReduceMax", 13, "int64[7,80]", "axes=[1]", 1, 0, 0, 0, 0, 0},
        {"ReduceMean", 13, "int32[7,80]", "axes=[0]", 1, 0, 0, 0, 0, 0},
        {"CumSum", 14, "int64[7,80] int64[]={1}", "", 1, 0, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < N_OF(others); k++) twin_check(&others[k], false);
    const kernel_case sums = {"CumSum", 14, "float32[3,5,70,11] int64[]={2}", "exclusive=1 reverse=1", 1, 0, 0, 1, 0, 0};
    twin_check(&sums, true);
}

TEST(attention_agrees_with_the_cpu)
{
    const char *kind = "memplan:ScaledDotProductAttention";
    const kernel_case cases[] = {
        {kind, 1, "float32[2,2,70,24] float32[2,2,150,24] float32[2,2,150,80]", "scale=0.2", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[1,130,80] float32[1,80,67] float32[1,67,8]", "transK=1 causal=1", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[2,3,67,8] float32[2,3,67,8] float32[2,3,67,8] float32[67]", "ratio=0.25", 1, 0, 0, 7, 0, 0},
        {kind, 1, "float32[2,3,9,8] float32[2,3,6,8] float32[2,3,6,8] - bool[3,1,6]", "fill=-2.0", 1, 0, 0, 7, 0, 0},
    };
    for (size_t k = 0; k < N_OF(cases); k++) twin_check(&cases[k], true);
}

TEST(the_tests_of_the_cpu_pass)
{
    static const char *const tests[] = {"normalizations", "softmaxes", "reductions", "attention", "attention_masks", NULL};
    twin_passes(tests);
}

int main(void)
{
    return test_run(twin_load, NULL);
}
