/* attention_operands_cuda.h - what a library's attention reads beside the node's operands. Both only enqueue. Private to
 * executor/cuda/. */
#pragma once

#include "executor/operators/attention/attention_spec.h"

/* Seed and offset of a generator for this operator in this pass; the same in every run of the pass. */
void mp_cuda_attention_seed(const mp_run *run, uint32_t op, int64_t *seed, int64_t *offset);
/* The mask that these become, at `to`; what lies between the rows is not written. */
void mp_cuda_attention_mask(const mp_joint_mask *masks, const void *added, const void *positions, void *to);
