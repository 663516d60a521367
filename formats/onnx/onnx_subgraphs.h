/* onnx_subgraphs.h - nodes with subgraphs: If, Loop, Scan. Private to formats/. */
#pragma once

#include "formats/onnx/onnx_scope.h"

/* Is it an operator of ONNX's own with subgraphs that a model can carry? */
bool mp_onnx_is_control(const char *domain, const char *kind);

/* Adds such a node as a control operator, and its subgraphs as regions of the model (estimator/model/model.h). MP_PARSE: a
 * subgraph that is missing, too deep, or has two tensors of one name; MP_NOMEM. */
mp_status mp_onnx_add_control(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, int version,
                              const mp_onnx_binding *bindings, size_t n_bindings);

/* What the names in a subgraph of this attribute begin with: "NODE#then", NODE being the operator's name. In the pool; NULL:
 * out of memory. */
const char *mp_onnx_subgraph_prefix(mp_pool *pool, const char *node, const char *attribute);
