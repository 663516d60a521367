/* evaluate.h - runs a model forward, operator by operator, without a plan or a training graph.
 *
 * Used for accuracy on held-out data, and to check kernels against known results. Memory for a tensor is allocated when its
 * operator runs and freed after its last reader. */
#pragma once

#include "executor/kernel/backend.h"

typedef struct mp_evaluation {
    const mp_backend *backend; /* the backend that runs the operators and allocates the memory of arrays */
    mp_mode mode;
    mp_run run;
    const bool *adds_zeros; /* per operator: true if zeros replace the bias (operand 2), because another rank adds the bias;
                               NULL: false for all operators */
    mp_dtype dtype;         /* type of FLOAT tensors that the caller provides no memory for; UNDEFINED: FLOAT */
} mp_evaluation;

/* Computes the tensors listed in `wanted`. `values` has an array per tensor of the model. The caller sets the addresses of
 * inputs, parameters and wanted tensors; the function writes the wanted ones. All other arrays must be {0}, and are {0} again
 * when the function returns. Small constants need no data, because the model has their values. MP_INVALID: a tensor has no
 * data and no producer; MP_UNSUPPORTED: an operator has no kernel (the message names it); MP_NOMEM. O(operators). */
mp_status mp_evaluate(const mp_model *model, const mp_evaluation *how, mp_array *values, const int *wanted, size_t n_wanted,
                      mp_error *err);
