/* onnx_masks.h - causal masks among the tensors from outside. Private to formats/. */
#pragma once

#include "estimator/model/model.h"

/* Sets `mask` of square tensors of booleans (or bytes) from outside that have no value in the model: from the file's values; a
 * buffer without any is taken for a causal mask, true where scores are hidden if a Where puts a negative constant there, else
 * true where they are kept. The roles are set, the model is inferred. MP_IO: the file cannot be read again; MP_NOMEM.
 * O(tensors), and the elements of such masks in the file. */
mp_status mp_onnx_masks(mp_model *model, const char *path, mp_error *err);
