/* fusions.h - fuses operators of a model into one that a backend runs in a single call. */
#pragma once

#include "estimator/model/model.h"

/* Fuses BatchNormalization, an optional Add of the same shape, and Relu into BatchNormalizationAddRelu or
 * BatchNormalizationRelu, if no other operator reads the intermediate tensors. The intermediate tensors and the gradient of
 * Relu are then never stored. If both operands of Add are normalized, the later normalization is fused. Must be called after
 * the layouts are chosen. MP_NOMEM. */
mp_status mp_fuse_batch_normalizations(mp_model *model, mp_error *err);
