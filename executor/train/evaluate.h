/* evaluate.h - runs a model forward, operator by operator: no plan, no training graph, memory as it is needed.
 *
 * For accuracy on held-out data, and for checking kernels against known results. Each tensor gets memory when its operator runs
 * and gives it back after its last reader.
 */
#pragma once

#include "executor/kernel/backend.h"

typedef struct mp_evaluation {
    const mp_backend *backend; /* whose kernels run, where the arrays lie */
    mp_mode mode;
    mp_run run;
    mp_dtype dtype; /* the type in which FLOAT tensors without memory of the caller's are computed; UNDEFINED: FLOAT */
} mp_evaluation;

/* Runs what leads to the wanted tensors. `values` has an array per tensor of the model; those with data are the caller's:
 * inputs and parameters, which are read, and the wanted tensors, which are written. All others must be {0}, and are again
 * afterwards. Small constants need no data: the model knows them.
 * MP_INVALID: a tensor that nobody gives; MP_UNSUPPORTED: an operator without a kernel (named); MP_NOMEM. O(operators). */
mp_status mp_evaluate(const mp_model *model, const mp_evaluation *how, mp_array *values, const int *wanted, size_t n_wanted,
                      mp_error *err);
