/* adapters.h - low-rank adapters (Hu et al. 2021, "LoRA"), as the package peft sets them.
 *
 * y = x W + c becomes y = x W + c + 8/r * (x A) B with A of in x r and B of r x out, for the products whose matrix W a
 * pattern names. A starts as PyTorch's Linear does, B at zero, so that the first step computes what the network did.
 * Only adapters are trained: every other parameter is frozen, unless `train` names it. Backward keeps x for A, and x A
 * for B; for frozen products the gradient of x needs only W.
 *
 * x of 8 x 512 x 1024 floats and W of 1024 x 1024, r = 8: A and B are 2 * 1024 * 8 * 4 = 64 KiB, with gradients and
 * Adam's two moments 256 KiB where W took 16 MiB; x A is 8 * 512 * 8 * 4 = 128 KiB beside x, 16 MiB.
 */
#pragma once

#include "estimator/model/model.h"
#include "memplan/training.h"

enum { MP_ADAPTER_RANK_MAX = 1 << 16 };

typedef struct mp_adapters {
    const char *const
        *wanted; /* "8:*q_proj*": rank, and a shell pattern of parameters, or of operators that multiply by them */
    size_t n;
    const char *const *train; /* shell patterns of parameters that are trained, too */
    size_t n_train;
    mp_rules rules; /* PYTORCH: an operator of its own scales, as peft does it */
} mp_adapters;

/* True if a text is RANK:PATTERN; *rank and *pattern are set then. */
bool mp_adapter_read(const char *text, int *rank, const char **pattern);
/* Returns how many matrices a pattern names: parameters of rank 2 that products (MatMul, Gemm) multiply something by.
 * O(operators). */
size_t mp_adapter_matrices(const mp_model *model, const char *pattern);

/* Adds adapters to a model that has been inferred and simplified, before its loss is added. A matrix that several
 * products read has one adapter; the first pattern that names it says the rank. MP_INVALID: a text that is no
 * RANK:PATTERN, a pattern that names no such matrix (a convolution's filter does not count). MP_UNSUPPORTED: a product
 * that reads x transposed. MP_NOMEM. Changes the model. O(operators * patterns). */
mp_status mp_model_add_adapters(mp_model *model, const mp_adapters *adapters, mp_error *err);
