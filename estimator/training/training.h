/* training.h - training graphs with their bindings, for backends; the rest is in memplan/training.h. */
#pragma once

#include "estimator/model/ops.h"
#include "estimator/training/target.h"
#include "memplan/graph.h"
#include "memplan/training.h"

/* The same, and what its nodes do: *bindings is released with mp_bindings_free. */
mp_status mp_training_graph_bound(const mp_model *model, const mp_training_options *options, int loss, const mp_target *target,
                                  mp_graph **out, mp_bindings **bindings, mp_error *err);
