/* autocast.h - a model as torch.autocast runs it on a GPU: casts where it casts, 16-bit tensors where it has them. Private to
 * estimator/. */
#pragma once

#include "estimator/model/ops.h"

/* For a model that is complete, its loss included; `low` is FLOAT16 or BFLOAT16. Inserts Cast operators and gives what comes of
 * operators in 16 bits that type; parameters stay as they are. Under PyTorch's rules each use of an activation has a copy of
 * its own, as there, and only those of parameters are shared; under the executor's all are. Operator indices change. MP_NOMEM.
 * O(operands). */
mp_status mp_model_autocast(mp_model *model, mp_dtype low, mp_rules rules, mp_error *err);

/* True if the operator casts a parameter: autocast's cache holds the copy until the region ends. */
bool mp_casts_parameter(const mp_model *model, const mp_operator *op);
