/* onnx_scopes.h - modules and source lines of operators, as PyTorch's newer exporter notes them. Private to formats/. */
#pragma once

#include "estimator/model/model.h"
#include "formats/onnx/scan/onnx_budget.h"
#include "onnx.pb-c.h"

/* Puts the modules in front of the names of operators and of what they compute, "linear_3" becomes
 * "/blocks.0/blocks.0.fc/linear_3" (the file's name still finds the tensor), and gives operators the call that they were
 * written for, and tensors the line of the program that computes them. Names with modules, constants and outputs of the model
 * stay as they are. Call it when the outputs are declared. MP_PARSE: damaged metadata; MP_NOMEM. O(metadata). */
mp_status mp_onnx_scopes_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_error *err);
