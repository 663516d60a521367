/* onnx_nodes.h - the operators of an ONNX graph, its own functions inlined. Private to formats/. */
#pragma once

#include "estimator/model/model.h"
#include "formats/onnx/scan/onnx_budget.h"
#include "onnx.pb-c.h"

/* Adds every node of the graph to the model, which holds the graph's inputs and initializers already. A node that calls a
 * function of the file is replaced by the function's nodes, unless the registry knows the operator as a whole. `allocator`
 * serves for what protobuf-c left packed. MP_PARSE, MP_UNSUPPORTED: a sentence that names the node; MP_NOMEM. */
mp_status mp_onnx_nodes(mp_model *model, const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_error *err);
