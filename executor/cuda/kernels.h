/* kernels.h - the GPU's own kernels: tables per family, each ended by a row without a kind, and what the backend does without
 * an operator. All only enqueue on mp_cuda_stream(). Private to executor/cuda/.
 */
#ifndef EXECUTOR_CUDA_KERNELS_H
#define EXECUTOR_CUDA_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"
#include "executor/operators/elementwise/dropout.h"
#include "executor/operators/elementwise/elementwise.h"
#include "executor/operators/elementwise/random_source.h"
#include "executor/operators/products/attention_spec.h"
#include "executor/operators/reductions/reduced.h"
#include "executor/operators/rows/class_loss.h"
#include "executor/operators/rows/lines.h"
#include "executor/operators/rows/normalization.h"

/* A family is a line here and a table mp_cuda_NAME in a file of its folder. */
#define MP_CUDA_FAMILIES(X)                                                                            \
    X(unaries)              /* Relu ... Cast, Clip */                                                  \
    X(binaries)             /* Add ... Where, comparisons, logic */                                    \
    X(randoms)              /* Dropout, RandomUniform, RandomNormal ..., Bernoulli */                  \
    X(pools)                /* MaxPool, AveragePool, LpPool, their global forms */                     \
    X(batch_normalizations) /* BatchNormalization */                                                   \
    X(normalizations)       /* LayerNormalization ... LRN */                                           \
    X(softmaxes)            /* Softmax, LogSoftmax, Hardmax */                                         \
    X(losses)               /* SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss, MeanSquaredError */ \
    X(reductions)           /* Reduce*, ArgMax, ArgMin, CumSum, TopK */                                \
    X(attentions)           /* ScaledDotProductAttention */                                            \
    X(moves)                /* Transpose, Concat, Split, Slice, Pad, Expand, Tile ..., Reorder */      \
    X(gathers)              /* Gather*, Compress, MaxUnpool, Scatter*, OneHot, ReverseSequence */      \
    X(samplings)            /* Resize, Upsample, GridSample, RoiAlign, MaxRoiPool */                   \
    X(sources)              /* Constant, ConstantOfShape, Shape, Range, EyeLike, windows ... */        \
    X(einsums)              /* Einsum */
#define MP_CUDA_FAMILY(name) extern const mp_kernel mp_cuda_##name[];
MP_CUDA_FAMILIES(MP_CUDA_FAMILY)
#undef MP_CUDA_FAMILY

/* The row for an operator in the tables of own kernels, NULL: none. */
const mp_kernel *mp_cuda_own_kernel(const mp_operator *op);

/* The engine's functions (elementwise.h). */
void mp_cuda_floats(mp_formula formula, const double *parameters, const mp_array *const *in, int n_in, const mp_array *out);
void mp_cuda_whole(mp_whole_formula formula, const double *parameters, const mp_array *const *in, int n_in,
                   const mp_array *out);
void mp_cuda_sum_to(const mp_array *from, const mp_array *to, float scale, bool add, void *workspace);
int64_t mp_cuda_sum_workspace_bytes(const mp_array *from, const mp_array *to);
mp_status mp_cuda_launched(mp_error *err);

/* to[i] = from[i] where it is kept; `given` (NULL: none) receives 1 and 0, `mask` (NULL: draw) is read instead of drawing. */
void mp_cuda_drop(const mp_dropout *dropout, const mp_run *run, uint32_t op, const mp_array *from, const mp_array *to,
                  const uint8_t *mask, uint8_t *keeps, uint8_t *given);

/* Each element from its own words; `probabilities`: read for Bernoulli only. */
void mp_cuda_draw(const mp_random_source *source, const mp_run *run, uint32_t op, const mp_array *probabilities,
                  const mp_array *to);

/* As in mp_backend. */
void mp_cuda_add(mp_dtype dtype, int64_t n, const void *from, void *to);
void mp_cuda_update(mp_update *updates, size_t n, const mp_update_factors *factors);
int64_t mp_cuda_norm_workspace_bytes(int64_t n_elements);
void mp_cuda_clip(const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor);

/* Per stretch of MP_CUDA_STRETCH bytes of memory: up to where it has another byte, from its begin; 0: nowhere. */
enum { MP_CUDA_STRETCH = 1 << 20 };
void mp_cuda_last_others(const unsigned char *memory, unsigned char byte, int64_t bytes, int64_t *stretches);

#ifdef __cplusplus
}
#endif

#endif
