/* attention_operands_cuda.h - computes operands that cuDNN's attention requires besides the node's operands: a seed for
 * dropout, and an additive mask. Both functions only enqueue. Private to executor/cuda/. */
#pragma once

#include "executor/operators/attention/attention_spec.h"

/* Writes the seed and offset of dropout's random numbers for operator `op`. They depend on the pass only, so a recomputation
 * drops the same elements. */
void mp_cuda_attention_seed(const mp_run *run, uint32_t op, int64_t *seed, int64_t *offset);
/* Combines all masks of an attention into one additive mask and writes it to `to`. The padding between the rows is not
 * written. */
void mp_cuda_attention_mask(const mp_joint_mask *masks, const void *added, const void *positions, void *to);
