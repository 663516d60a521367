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
/* The same for one operator, for those that are added later. */
mp_status mp_operator_infer(mp_model *model, int op, mp_error *err);
