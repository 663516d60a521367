/* adapters.h - low-rank adapters (Hu et al. 2021, "LoRA"), as in the package peft.
 *
 * y = x W + c becomes y = x W + c + 8/r * (x A) B, with A of in x r and B of r x out, for the products whose matrix W matches a
 * pattern. A starts like the weight of PyTorch's Linear, B at zero, so the first step computes the result of the original
 * network. Only adapters are trained. All other parameters are frozen unless `train` names them. Backward reads x for the
 * gradient of A, and x A for the gradient of B. In a frozen product the gradient of x reads only W.
 *
 * Example: x of 8 x 512 x 1024 floats, W of 1024 x 1024, r = 8. A and B have 2 * 1024 * 8 * 4 bytes = 64 KiB; with gradients
 * and Adam's two moments 256 KiB, compared with 16 MiB for W. x A has 8 * 512 * 8 * 4 bytes = 128 KiB, in addition to the 16
 * MiB of x. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/training.h"

enum { MP_ADAPTER_RANK_MAX = 1 << 16 };

typedef struct mp_adapters {
    const char *const *wanted; /* texts such as "8:*q_proj*": a rank, and a shell pattern. The pattern matches parameters, or
                                  operators that multiply by them */
    size_t n;
    const char *const *train; /* shell patterns of parameters that are trained although adapters are used */
    size_t n_train;
    mp_rules rules; /* with MP_RULES_PYTORCH, the scaling of an adapter is a separate operator, as in peft */
} mp_adapters;

/* True if a text has the form RANK:PATTERN; then sets *rank and *pattern. */
bool mp_adapter_read(const char *text, int *rank, const char **pattern);
/* Returns the number of matrices that a pattern matches. A matrix is a parameter of rank 2 used in products (MatMul, Gemm).
 * O(operators). */
size_t mp_adapter_matrices(const mp_model *model, const char *pattern);

/* Adds adapters to an inferred and simplified model, before its loss is added. A matrix that several products read has one
 * adapter. The first matching pattern determines its rank. MP_INVALID: a text is not RANK:PATTERN, or a pattern matches no
 * matrix (convolution weights do not count). MP_UNSUPPORTED: a product reads x transposed. MP_NOMEM. Changes the model.
 * O(operators * patterns). */
mp_status mp_model_add_adapters(mp_model *model, const mp_adapters *adapters, mp_error *err);
