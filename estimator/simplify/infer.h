/* infer.h - inference: computes types, shapes and small values of all tensors from the declared inputs.
 *
 * Inference visits the operators in order (call mp_model_sort first). It looks up the registry row of each operator, checks its
 * arity and applies its shape rule. If the inputs are known and the outputs small, it also applies the fold rule. Exports with
 * dynamic axes contain integer operators (Shape, Gather, Concat, ...) that compute shapes. If the batch size is known, all of
 * them can be folded. A shape may depend on a value known only at run time. The operator then uses the shape that the file
 * declares for its outputs, or for a tensor that elementwise operators derive from them.
 *
 * Errors name the operator. MP_UNSUPPORTED: no registry row, subgraphs, or an undeclared shape that depends on run-time values.
 * MP_PARSE: shapes that do not fit. O(operands + folded elements). */
#pragma once

#include "estimator/model/model.h"

mp_status mp_model_infer(mp_model *model, mp_error *err);
/* Infers one operator that was added after mp_model_infer. */
mp_status mp_operator_infer(mp_model *model, int op, mp_error *err);

/* Adds an operator that writes only *out, and infers it. If *out < 0, a new tensor is created and named after `stem`.
 * MP_NOMEM. Other errors as mp_model_operator and mp_model_infer. */
mp_status mp_operator_put(mp_model *model, mp_operator_draft draft, const char *stem, int *out, mp_error *err);

/* Adds an operator that splits a tensor along an axis into n new tensors parts[0..n) of these sizes, named "TENSOR:0" and so
 * on. MP_NOMEM. Other errors as mp_operator_put. */
mp_status mp_operator_split(mp_model *model, int tensor, int axis, const int64_t *sizes, int n, int *parts, mp_error *err);

/* Evaluates an operator on scalars. Input k has the value in[k], converted to the type of the operator's input tensor. If
 * output 0 is a scalar, sets *known and *out. If the operator requires an axis or a matrix, *known is false. Omitted inputs
 * stay omitted. MP_NOMEM. O(operands). */
mp_status mp_operator_on_numbers(const mp_model *model, const mp_operator *op, const double *in, bool *known, double *out,
                                 mp_error *err);
