/* evaluate.h - runs a model forward, operator by operator: no plan, no training graph, memory as it is needed.
 *
 * For accuracy on held-out data, and for checking kernels against known results. Each tensor gets memory when its operator runs
 * and gives it back after its last reader.
 */
#pragma once

#include "executor/kernel/backend.h"

typedef struct mp_evaluation {
    const mp_backend *backend; /* backend of the kernels and of the arrays' memory */
    mp_mode mode;
    mp_run run;
    const bool
        *adds_zeros; /* per operator: its operand 2, a bias, counts as zeros, since another rank adds it; NULL: none does */
    mp_dtype dtype;  /* type in which FLOAT tensors are computed that the caller gives no memory; UNDEFINED: FLOAT */
} mp_evaluation;

/* Computes the wanted tensors. `values` has an array per tensor of the model. The caller gives data for inputs and
 * parameters, which are read, and for the wanted tensors, which are written. All others must be {0}, and are so again
 * afterwards. Small constants need no data: the model has their values. MP_INVALID: a tensor has no data and no producer;
 * MP_UNSUPPORTED: an operator has no kernel (named); MP_NOMEM. O(operators). */
mp_status mp_evaluate(const mp_model *model, const mp_evaluation *how, mp_array *values, const int *wanted, size_t n_wanted,
                      mp_error *err);
