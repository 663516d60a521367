/* infer.h - shapes, types and small values of every tensor, from the declared inputs on.
 *
 * Walks the operators in order (mp_model_sort first), looks up each one's row, checks its arity, applies its shape rule and, on
 * small tensors with known inputs, its fold rule. Exports with dynamic axes carry chains of integer operators (Shape, Gather,
 * Concat, ...) that compute shapes: with a concrete batch they all fold. An operator whose shape depends on a value known only
 * when the step runs takes the shape that the file declares for its outputs, or for a tensor to which elementwise operators
 * carry that shape.
 *
 * Errors name the operator: MP_UNSUPPORTED for one without a row (or with subgraphs), MP_PARSE for shapes that do not fit,
 * MP_UNSUPPORTED for a shape that depends on run-time values and is not declared. O(operands + folded elements).
 */
#pragma once

#include "estimator/model/model.h"

mp_status mp_model_infer(mp_model *model, mp_error *err);
/* Infers one operator that was added later. */
mp_status mp_operator_infer(mp_model *model, int op, mp_error *err);

/* Adds an operator that writes only *out, and infers it; *out < 0: a fresh tensor named after `stem`. MP_NOMEM, and
 * errors as mp_model_operator and mp_model_infer. */
mp_status mp_operator_put(mp_model *model, mp_operator_draft draft, const char *stem, int *out, mp_error *err);

/* Folds an operator whose input k is the scalar in[k], of the type that the tensor there has. Sets *known and *out if output 0
 * is a scalar; *known is false if the operator needs an axis or a matrix. Inputs that the operator leaves out stay left out.
 * MP_NOMEM. O(operands). */
mp_status mp_operator_on_numbers(const mp_model *model, const mp_operator *op, const double *in, bool *known, double *out,
                                 mp_error *err);
