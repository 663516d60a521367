/* onnx_tensor.h - turns TensorProto, attributes and declared types into parts of a model. Private to formats/. */
#pragma once

#include "estimator/model/model.h"
#include "onnx.pb-c.h"

/* Adds an initializer: type, shape, and its value if the file carries it and it is small; its role becomes MP_ROLE_CONSTANT.
 * `index`: the tensor that it becomes; -1: a new one of its name.
 * MP_PARSE: no name, a name that is taken, a shape or external data that makes no sense; MP_UNSUPPORTED: an unknown element
 * type; MP_NOMEM. */
mp_status mp_onnx_initializer(mp_model *model, const Onnx__TensorProto *tensor, int index, mp_error *err);
mp_status mp_onnx_sparse_initializer(mp_model *model, const Onnx__SparseTensorProto *tensor, mp_error *err);

/* Fills in an attribute of operator `op`; it points into the model's pool or the message. Errors as mp_onnx_initializer. */
mp_status mp_onnx_attribute(mp_model *model, const Onnx__AttributeProto *attribute, const char *name, const char *op,
                            mp_attribute *out, mp_error *err);

/* Returns the number that the bits of an element of FLOAT16, BFLOAT16, FLOAT or DOUBLE stand for. */
double mp_onnx_real(mp_dtype dtype, uint64_t bits);
