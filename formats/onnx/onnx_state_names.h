/* onnx_state_names.h - what the name of a tensor says of what it is, as frameworks and exporters name them. Private to
 * formats/.
 */
#pragma once

#include "estimator/model/model.h"

/* It ends like an entry of a state dictionary: "enc.weight", "bn.running_var". */
bool mp_onnx_names_entry(const char *name);
/* It is one of a module within a module, "m.logit_scale": a dot, and nothing that exporters put into names of their own. */
bool mp_onnx_names_state(const char *name);
/* It ends like a table that is looked at: "causal_mask", "rotary.cos_cached", "pixel_mean". */
bool mp_onnx_names_table(const char *name);
/* It is that of a result in PyTorch's newer exporter, which it has computed and stored: "val_162", "zeros_like", "unsqueeze_3".
 */
bool mp_onnx_names_result(const char *name);
/* All floating-point initializers are called like state, those of the module itself without a dot, and one is an entry of a
 * module within it: PyTorch's older exporter, which writes constants as operators. No roles are chosen yet. O(tensors). */
bool mp_onnx_is_state_dictionary(const mp_model *model);
/* It is weight, bias, running_mean or running_var, and the model has both statistics of the same module. */
bool mp_onnx_names_frozen_norm(const mp_model *model, const char *name);
