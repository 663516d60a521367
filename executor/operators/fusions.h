/* fusions.h - operators that a backend runs as one, where the model has them one by one. */
#pragma once

#include "estimator/model/model.h"

/* BatchNormalization, an Add of the same shape or none, and Relu become one operator where nobody else reads what lies between
 * them: BatchNormalizationAddRelu or BatchNormalizationRelu. What was between is neither written nor read, and neither is what
 * Relu's gradient would be. Where both operands of Add are normalized, the later one is taken in. After layouts are chosen.
 * MP_NOMEM. */
mp_status mp_fuse_batch_normalizations(mp_model *model, mp_error *err);
