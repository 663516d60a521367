/* attention_operands_cuda.h - operands that a library's attention requires in addition to the node's. Both functions only
 * enqueue. Private to executor/cuda/. */
#pragma once

#include "executor/operators/attention/attention_spec.h"

/* Writes the seed and offset of the generator for this operator in this pass. They are the same in every run of the pass. */
void mp_cuda_attention_seed(const mp_run *run, uint32_t op, int64_t *seed, int64_t *offset);
/* Writes the joint mask to `to`; the padding between its rows is not written. */
void mp_cuda_attention_mask(const mp_joint_mask *masks, const void *added, const void *positions, void *to);
