/* layouts.h - the memory layout of a model's tensors, for every backend: channels-last around convolutions, row-major
 * elsewhere.
 */
#pragma once

#include "estimator/model/model.h"

/* Gives every tensor its layout, and inserts a Reorder where a reader needs another. The model stays sorted. MP_NOMEM. */
mp_status mp_layouts_choose(mp_model *model, mp_error *err);
