/* on_numbers.h - what an operator makes of single numbers, by its own rules. */
#pragma once

#include "estimator/model/model.h"

/* Output 0 of an operator of the model whose input k is the single number in[k], of the type that the tensor there has.
 * *known: its fold rule has given a single number, *out. An operator that needs more than single numbers (an axis, a matrix)
 * gives none. Inputs that the operator leaves out stay left out. MP_NOMEM. O(operands). */
mp_status mp_operator_on_numbers(const mp_model *model, const mp_operator *op, const double *in, bool *known, double *out,
                                 mp_error *err);
