/* training_update.h - gradients, optimizer state and update nodes of trained parameters. */
#pragma once

#include "estimator/training/builder.h"

/* Gradient storages of the trained parameters, before anything else refers to them. MP_NOMEM. */
mp_status mp_build_parameter_gradients(mp_builder *b);
/* Optimizer state and update nodes. MP_NOMEM, and what the target's costs fail with. */
mp_status mp_build_updates(mp_builder *b);
