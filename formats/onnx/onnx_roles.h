/* onnx_roles.h - which tensors from outside are the batch, which are trained. Private to formats/. */
#pragma once

#include "estimator/model/model.h"
#include "formats/onnx/onnx_origins.h"
#include "memplan/onnx.h"

/* Sets role and role_reason of every declared input and initializer (whose role is MP_ROLE_CONSTANT so far). The operators are
 * all there, the type of every input is known, and its shape if it is fixed (rank -1: a dimension is open). `origins` is what
 * the file says of its initializers; of the options `data` and `train` count: with the first exactly the named inputs are
 * data, by the second floating-point state of such names is trained whatever the rules say. MP_INVALID: a name that is no
 * input, a pattern that nothing has; MP_NOMEM. O(operands + tensors times patterns). */
mp_status mp_onnx_roles(mp_model *model, const mp_onnx_origins *origins, const mp_onnx_options *options, mp_error *err);
