/* onnx_dimensions.h - open dimensions and what closes them. Private to formats/. */
#pragma once

#include "estimator/model/model.h"
#include "memplan/onnx.h"
#include "onnx.pb-c.h"

/* Adds the graph's inputs that are no initializers: element type, and shape if no dimension is open (rank -1 otherwise). Their
 * role becomes MP_ROLE_DATA for now. MP_PARSE, MP_UNSUPPORTED (no tensor), MP_NOMEM. */
mp_status mp_onnx_inputs(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err);

/* Gives every input its shape, now that the roles are known, and records the shapes that the file declares for other tensors.
 * MP_INVALID: an option that names no dimension, or a batch that the file does not allow; MP_PARSE: a dimension that stays
 * open; MP_NOMEM. */
mp_status mp_onnx_bind(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err);

/* Whether a symbolic dimension of this name is a batch: "N", "batch_size". */
bool mp_onnx_is_batch_name(const char *name);
