/* onnx_tensor.h - converts TensorProto, attributes and declared types to parts of a model. Private to formats/. */
#pragma once

#include "estimator/model/model.h"
#include "onnx.pb-c.h"

/* Adds an initializer with its type and shape, and with its value if the value is in the file and small. Its role becomes
 * MP_ROLE_CONSTANT. `index` is the tensor that becomes the initializer; -1: a new tensor with the initializer's name is
 * added. MP_PARSE: the initializer has no name or a name in use, or its shape or external data are invalid. MP_UNSUPPORTED:
 * the element type is unknown. MP_NOMEM. */
mp_status mp_onnx_initializer(mp_model *model, const Onnx__TensorProto *tensor, int index, mp_error *err);
mp_status mp_onnx_sparse_initializer(mp_model *model, const Onnx__SparseTensorProto *tensor, mp_error *err);

/* Converts an AttributeProto of operator `op` to an attribute. Its pointers refer to the model's pool or to the message.
 * Errors as mp_onnx_initializer. */
mp_status mp_onnx_attribute(mp_model *model, const Onnx__AttributeProto *attribute, const char *name, const char *op,
                            mp_attribute *out, mp_error *err);

/* Converts the bit pattern of a FLOAT16, BFLOAT16, FLOAT or DOUBLE element to a number. */
double mp_onnx_real(mp_dtype dtype, uint64_t bits);
