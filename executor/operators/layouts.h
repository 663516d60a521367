/* layouts.h - the memory layout of a model's tensors, as all backends use it: channels-last around convolutions, row-major
 * elsewhere. */
#pragma once

#include "estimator/model/model.h"

/* Sets the layout of every tensor, and inserts a Reorder if a reader requires another layout. The model stays sorted. MP_NOMEM.
 */
mp_status mp_layouts_choose(mp_model *model, mp_error *err);
