/* onnx_tensor.h - converts TensorProto, attributes and declared types to parts of a model. Private to formats/. */
#pragma once

#include "estimator/model/model.h"
#include "onnx.pb-c.h"

/* Adds an initializer: type, shape, and its value if the value is in the file and small. Its role becomes MP_ROLE_CONSTANT.
 * `index`: the tensor that becomes the initializer; -1: a new tensor with its name. MP_PARSE: no name, a name in use, or an
 * invalid shape or external data. MP_UNSUPPORTED: an unknown element type. MP_NOMEM. */
mp_status mp_onnx_initializer(mp_model *model, const Onnx__TensorProto *tensor, int index, mp_error *err);
mp_status mp_onnx_sparse_initializer(mp_model *model, const Onnx__SparseTensorProto *tensor, mp_error *err);

/* Fills in an attribute of operator `op`. It points into the model's pool or the message. Errors as mp_onnx_initializer. */
mp_status mp_onnx_attribute(mp_model *model, const Onnx__AttributeProto *attribute, const char *name, const char *op,
                            mp_attribute *out, mp_error *err);

/* Converts the bits of a FLOAT16, BFLOAT16, FLOAT or DOUBLE element to a number. */
double mp_onnx_real(mp_dtype dtype, uint64_t bits);
