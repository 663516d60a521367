/* builder_backward.h - gradients and backward nodes of a training graph. */
#pragma once

#include "estimator/training/builder.h"

/* Gradient storages and the nodes that produce them, in reverse order of the forward nodes. MP_NOMEM, and what the target's
 * costs fail with. */
mp_status mp_build_backward(mp_builder *b);
