/* families.h - lists the tables of CPU kernels: one table per family of similar operators. A row without a kind ends a table.
 * Private to executor/cpu/. */
#pragma once

#include "executor/kernel/kernel.h"

/* Each line is a family of operators: a table mp_cpu_NAME, defined in a file of the family's folder. */
#define MP_CPU_FAMILIES(X)                                                                             \
    X(convolutions)         /* Conv, ConvTranspose */                                                  \
    X(products)             /* MatMul, FusedMatMul, Gemm */                                            \
    X(einsums)              /* Einsum */                                                               \
    X(recurrents)           /* LSTM, GRU, RNN */                                                       \
    X(attentions)           /* ScaledDotProductAttention */                                            \
    X(pools)                /* MaxPool, AveragePool, LpPool, global pools */                           \
    X(normalizations)       /* LayerNormalization ... MeanVarianceNormalization */                     \
    X(batch_normalizations) /* BatchNormalization */                                                   \
    X(softmaxes)            /* Softmax, SafeSoftmax, LogSoftmax, Hardmax */                            \
    X(losses)               /* SoftmaxCrossEntropyLoss ... BinaryCrossEntropyWithLogits */             \
    X(unaries)              /* Relu ... Cast, Clip */                                                  \
    X(binaries)             /* Add ... Where, comparisons, logic */                                    \
    X(randoms)              /* random and constant tensors: Dropout, RandomNormal, Range, Shape ... */ \
    X(copies)               /* copies: Transpose, Concat, Split, Slice, Pad, Expand, Tile, Reorder */  \
    X(gathers)              /* Gather*, Compress, MaxUnpool, Scatter* */                               \
    X(reductions)           /* Reduce* */                                                              \
    X(extremes)             /* ArgMax, ArgMin */                                                       \
    X(tops)                 /* TopK */                                                                 \
    X(resizes)              /* Resize, Upsample */                                                     \
    X(samplers)             /* GridSample, RoiAlign */                                                 \
    X(exchanges)            /* AllReduce, AllGather ..., between ranks */                              \
    X(bodies)               /* the operators of executor/operators/bodies.h */
#define MP_CPU_FAMILY(name) extern const mp_kernel mp_cpu_##name[];
MP_CPU_FAMILIES(MP_CPU_FAMILY)
#undef MP_CPU_FAMILY

/* Returns the table row of an operator; NULL: the CPU has no kernel for the operator. */
static inline const mp_kernel *mp_cpu_kernel(const mp_operator *op)
{
#define MP_CPU_TABLE(name) mp_cpu_##name,
    static const mp_kernel *const families[] = {MP_CPU_FAMILIES(MP_CPU_TABLE)};
#undef MP_CPU_TABLE
    return mp_kernel_find(families, sizeof families / sizeof *families, op);
}
