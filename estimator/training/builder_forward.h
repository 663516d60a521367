/* builder_forward.h - forward and loss nodes of a training graph, with the storages of the tensors. */
#pragma once

#include "estimator/training/builder.h"

/* The storage that operand k of an operator is read from, -1: none (left out, or small enough to be a kernel's argument). */
int mp_builder_operand(const mp_builder *b, int op, int k);

/* Storages of tensors, forward and loss nodes. MP_NOMEM, and what the target's costs fail with. */
mp_status mp_build_forward(mp_builder *b);
