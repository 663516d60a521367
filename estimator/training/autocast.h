/* autocast.h - inserts the casts and 16-bit tensors of torch.autocast on a GPU into a model. Private to estimator/. */
#pragma once

#include "estimator/model/ops.h"
#include "memplan/training.h"

/* Inserts Cast operators into a complete model with its loss. Outputs of 16-bit operators get the type options->amp (FLOAT16 or
 * BFLOAT16). Parameters keep their type; with gathers_low no operator casts them. Under PyTorch's rules each use of an
 * activation has its own cast, and only casts of parameters are shared. Under the executor's rules all casts are shared.
 * Operator indices change. MP_NOMEM. O(operands). */
mp_status mp_model_autocast(mp_model *model, const mp_training_options *options, mp_error *err);

/* True if the operator casts a parameter. autocast's cache then keeps the copy until the autocast region ends. */
bool mp_casts_parameter(const mp_model *model, const mp_operator *op);
