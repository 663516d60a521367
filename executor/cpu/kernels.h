/* kernels.h - the CPU's kernels: one table per family, ended by a row without a kind. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_KERNELS_H
#define EXECUTOR_CPU_KERNELS_H

#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"

/* A family is a line here and a table mp_cpu_NAME in a file of its folder. */
#define MP_CPU_FAMILIES(X)                                                                  \
    X(convolutions)   /* Conv, ConvTranspose */                                             \
    X(products)       /* MatMul, FusedMatMul, Gemm */                                       \
    X(einsums)        /* Einsum */                                                          \
    X(attentions)     /* ScaledDotProductAttention */                                       \
    X(pools)          /* MaxPool, AveragePool, LpPool, their global forms */                \
    X(normalizations) /* BatchNormalization ... LRN */                                      \
    X(softmaxes)      /* Softmax, LogSoftmax, Hardmax, and the losses */                    \
    X(unaries)        /* Relu ... Cast, Clip */                                             \
    X(binaries)       /* Add ... Where, comparisons, logic */                               \
    X(randoms)        /* Dropout, RandomNormal ... */                                       \
    X(sources)        /* Constant, ConstantOfShape, Shape, Range, EyeLike, windows ... */   \
    X(moves)          /* Transpose, Concat, Split, Slice, Pad, Expand, Tile ..., Reorder */ \
    X(triangles)      /* Trilu */                                                           \
    X(gathers)        /* Gather*, Compress, MaxUnpool */                                    \
    X(scatters)       /* Scatter* */                                                        \
    X(sequences)      /* ReverseSequence, OneHot */                                         \
    X(reductions)     /* Reduce* */                                                         \
    X(scans)          /* ArgMax, ArgMin, CumSum */                                          \
    X(tops)           /* TopK */                                                            \
    X(determinants)   /* Det */                                                             \
    X(resizes)        /* Resize, Upsample */                                                \
    X(grid_samples)   /* GridSample */                                                      \
    X(regions)        /* RoiAlign, MaxRoiPool */
#define MP_CPU_FAMILY(name) extern const mp_kernel mp_cpu_##name[];
MP_CPU_FAMILIES(MP_CPU_FAMILY)
#undef MP_CPU_FAMILY

/* The row for an operator, NULL: none. */
const mp_kernel *mp_cpu_kernel(const mp_operator *op);
/* As in mp_backend: of convolutions. */
mp_status mp_cpu_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err);

/* to[k] += from[k]: an mp_add_function for FLOAT and BFLOAT16. */
void mp_cpu_add(mp_dtype dtype, int64_t n, const void *from, void *to);

/* As in mp_backend. */
void mp_cpu_update(mp_update *updates, size_t n, const mp_update_factors *factors);
int64_t mp_cpu_norm_workspace_bytes(int64_t n_elements);
void mp_cpu_clip(const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor);

/* Gives each weight that only convolutions read the packed layout that they run fastest on (mp_tensor.packed and packed_bytes).
 * The descriptions live in the model's pool. `dtype`: of the computation. */
mp_status mp_cpu_pack_weights(mp_model *model, mp_dtype dtype, mp_error *err);
/* Copies between a plain array and one of any layout, packed ones included (elements that only pad are zeroed). Types may
 * differ (float32, bfloat16). */
mp_status mp_cpu_reorder(const mp_array *from, const mp_array *to, mp_error *err);

#endif
