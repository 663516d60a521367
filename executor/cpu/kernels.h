/* kernels.h - the CPU's kernels: one table per family, ended by a row without a kind. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_KERNELS_H
#define EXECUTOR_CPU_KERNELS_H

#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"

extern const mp_kernel mp_cpu_convolutions[];   /* Conv, ConvTranspose */
extern const mp_kernel mp_cpu_products[];       /* MatMul, FusedMatMul, Gemm, Einsum */
extern const mp_kernel mp_cpu_attentions[];     /* ScaledDotProductAttention */
extern const mp_kernel mp_cpu_pools[];          /* MaxPool, AveragePool, LpPool, their global forms, MaxUnpool */
extern const mp_kernel mp_cpu_normalizations[]; /* BatchNormalization ... LRN */
extern const mp_kernel mp_cpu_softmaxes[];      /* Softmax, LogSoftmax, Hardmax, and the losses */
extern const mp_kernel mp_cpu_unaries[];        /* Relu ... Cast, Clip */
extern const mp_kernel mp_cpu_binaries[];       /* Add ... Where, comparisons, logic */
extern const mp_kernel mp_cpu_randoms[];        /* Dropout, RandomNormal ... */
extern const mp_kernel mp_cpu_moves[];          /* Transpose, Concat, Split, Slice, Pad, Expand, Tile ..., Reorder */
extern const mp_kernel mp_cpu_gathers[];        /* Gather*, Scatter*, OneHot, Compress, ReverseSequence ... */
extern const mp_kernel mp_cpu_reductions[];     /* Reduce*, ArgMax, ArgMin, CumSum, TopK */
extern const mp_kernel mp_cpu_samplings[];      /* Resize, Upsample, GridSample, RoiAlign, MaxRoiPool */
extern const mp_kernel mp_cpu_sources[];        /* Constant, ConstantOfShape, Shape, Range, EyeLike, windows ... */

/* The row for an operator, NULL: none. */
const mp_kernel *mp_cpu_kernel(const mp_operator *op);
/* Prepares what the CPU does for an operator that has such a row, for a backend that runs it in another way. */
mp_status mp_cpu_prepare(const mp_operands *x, mp_call *call, mp_error *err);

/* As in mp_backend: of convolutions. */
mp_status mp_cpu_algorithms(const mp_operands *x, mp_algorithms *out, mp_error *err);

/* to[k] += from[k]: an mp_add_function for FLOAT and BFLOAT16. */
void mp_cpu_add(mp_dtype dtype, int64_t n, const void *from, void *to);

/* As in mp_backend. */
void mp_cpu_update(mp_update *updates, size_t n, const mp_update_factors *factors);
int64_t mp_cpu_norm_workspace_bytes(int64_t n_elements);
void mp_cpu_clip(const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor);

/* Gives every tensor its layout, and inserts Reorder operators where layouts meet. */
mp_status mp_cpu_choose_layouts(mp_model *model, mp_error *err);

/* Gives each weight that only convolutions read the packed layout that they run fastest on (mp_tensor.packed and packed_bytes).
 * The descriptions live in the model's pool. `dtype`: of the computation. */
mp_status mp_cpu_pack_weights(mp_model *model, mp_dtype dtype, mp_error *err);
/* Copies between a plain array and one of any layout, packed ones included (elements that only pad are zeroed). Types may
 * differ (float32, bfloat16). */
mp_status mp_cpu_reorder(const mp_array *from, const mp_array *to, mp_error *err);

#endif
