/* builder_strides.h - how views are laid out in memory under PyTorch's rules. */
#pragma once

#include "estimator/training/builder.h"

/* The strides of a view under PyTorch's rules. */
enum { MP_STRIDES_DENSE, MP_STRIDES_GAPS, MP_STRIDES_PERMUTED };

/* True if the operator's outputs share its first input's storage. */
bool mp_builder_is_view(const mp_builder *b, const mp_operator *op);
/* The strides of output o of a strided view. */
unsigned char mp_builder_strides(const mp_builder *b, const mp_operator *op, int o);
/* The dense copies that a batched product makes of its operands under PyTorch's rules, as writes of the current node. */
mp_status mp_builder_copies(mp_builder *b, int op);
