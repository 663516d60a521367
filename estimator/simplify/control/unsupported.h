/* unsupported.h - all operators of a model that the registry does not have, in one sentence. */
#pragma once

#include "estimator/model/model.h"

/* Looks up the row of every operator that is sure to run: those of the graph and of the bodies of loops, but not those in
 * branches of an If. MP_UNSUPPORTED: "the model has operators that are not supported: NonMaxSuppression (2), StringNormalizer
 * (1); the first one is node 'x'". O(operators). */
mp_status mp_model_check_supported(const mp_model *model, mp_error *err);
/* The same for list[0..n), the operators of a branch that is taken. */
mp_status mp_operators_check_supported(const mp_model *model, const int *list, size_t n, mp_error *err);
/* The same for one operator, whose row is then known. */
mp_status mp_operator_find_row(mp_operator *op, mp_error *err);
