/* families.h - lists the tables of GPU kernels: one table per family of similar operators. A row without a kind ends a table.
 * All kernels only enqueue work on mp_cuda_stream(). Private to executor/cuda/. */
#pragma once

#include "executor/kernel/chain.h"

/* memplan's own kernels. Each line is a family: a table mp_cuda_NAME, defined in a file of the family's folder. */
#define MP_CUDA_FAMILIES(X)                                                                            \
    X(unaries)              /* Relu ... Cast, Clip */                                                  \
    X(binaries)             /* Add ... Where, comparisons, logic */                                    \
    X(randoms)              /* random and constant tensors: Dropout, RandomNormal, Range, Shape ... */ \
    X(pools)                /* MaxPool, AveragePool, LpPool, global pools */                           \
    X(batch_normalizations) /* BatchNormalization */                                                   \
    X(normalizations)       /* LayerNormalization ... MeanVarianceNormalization */                     \
    X(softmaxes)            /* Softmax, SafeSoftmax, LogSoftmax, Hardmax */                            \
    X(losses)               /* SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss */                   \
    X(element_losses)       /* MeanSquaredError ... BinaryCrossEntropyWithLogits */                    \
    X(reductions)           /* Reduce*, ArgMax, ArgMin */                                              \
    X(attentions)           /* ScaledDotProductAttention */                                            \
    X(copies)               /* copies: Transpose, Concat, Split, Slice, Pad, Expand, Tile, Reorder */  \
    X(gathers)              /* Gather*, Compress, MaxUnpool, Scatter* */                               \
    X(resizes)              /* Resize, Upsample */                                                     \
    X(samplers)             /* GridSample, RoiAlign */                                                 \
    X(bodies)               /* the operators of executor/operators/bodies.h */                         \
    X(einsums)              /* Einsum */                                                               \
    X(tops)                 /* TopK */

/* Families of operators that are computed with cuDNN or cublasLt. */
#define MP_CUDA_LIBRARY_FAMILIES(X)                   \
    X(convolutions)   /* Conv, ConvTranspose */       \
    X(recurrents)     /* LSTM, GRU, RNN */            \
    X(products)       /* MatMul, FusedMatMul, Gemm */ \
    X(dnn_attentions) /* ScaledDotProductAttention */

#define MP_CUDA_FAMILY(name) extern const mp_kernel mp_cuda_##name[];
MP_CUDA_FAMILIES(MP_CUDA_FAMILY)
MP_CUDA_LIBRARY_FAMILIES(MP_CUDA_FAMILY)
#undef MP_CUDA_FAMILY

/* The chains of memplan's own kernels. mp_cuda_chain_NAME returns the launch of a chain; NULL: the chain is of another kind. */
#define MP_CUDA_CHAINS(X)                                                                                    \
    X(normalization) /* dropout, addition, normalization, dropout; backward of normalization and dropouts */ \
    X(gather)        /* gathers of rows and their sum */                                                     \
    X(loss)          /* a loss over classes and its backward */

#define MP_CUDA_CHAIN(name) mp_call_chain_run mp_cuda_chain_##name(mp_call_chain *chain);
MP_CUDA_CHAINS(MP_CUDA_CHAIN)
#undef MP_CUDA_CHAIN

/* Returns the launch of a chain; NULL: there is none. */
static inline mp_call_chain_run mp_cuda_chain(mp_call_chain *chain)
{
    mp_call_chain_run found = NULL;
#define MP_CUDA_CHAIN(name) \
    if (!found) found = mp_cuda_chain_##name(chain);
    MP_CUDA_CHAINS(MP_CUDA_CHAIN)
#undef MP_CUDA_CHAIN
    return found;
}

/* Returns the table row of an operator among memplan's own kernels; NULL: memplan has no own kernel for the operator. */
static inline const mp_kernel *mp_cuda_own_kernel(const mp_operator *op)
{
#define MP_CUDA_TABLE(name) mp_cuda_##name,
    static const mp_kernel *const families[] = {MP_CUDA_FAMILIES(MP_CUDA_TABLE)};
#undef MP_CUDA_TABLE
    return mp_kernel_find(families, sizeof families / sizeof *families, op);
}
