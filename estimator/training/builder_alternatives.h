/* builder_alternatives.h - other ways to run a node: masks kept instead of redrawn, backward from the output. */
#pragma once

#include "estimator/training/builder.h"

/* The storage in which a random operator may keep its mask, before its node is built. MP_NOMEM. */
mp_status mp_build_mask(mp_builder *b, int op);
/* The alternatives of node `index`, which was built for operator `op`. MP_NOMEM. */
mp_status mp_build_alternative(mp_builder *b, int op, int index);
