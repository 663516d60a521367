/* autocast.h - makes a model run as under torch.autocast on a GPU: with its casts and its 16-bit tensors. Private to
 * estimator/. */
#pragma once

#include "estimator/model/ops.h"
#include "memplan/training.h"

/* Inserts Cast operators into a complete model with its loss, and gives outputs of 16-bit operators the type
 * options->amp (FLOAT16 or BFLOAT16); parameters keep their type, and with gathers_low no operator casts them to it. Under
 * PyTorch's rules each use of an activation has a cast of its own and only casts of parameters are shared; under the executor's
 * all are shared. Operator indices change. MP_NOMEM. O(operands). */
mp_status mp_model_autocast(mp_model *model, const mp_training_options *options, mp_error *err);

/* True if the operator casts a parameter: autocast's cache holds the copy until the region ends. */
bool mp_casts_parameter(const mp_model *model, const mp_operator *op);
