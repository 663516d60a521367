/* packed_operands.h - attention that reads Q, K and V in the tensor of one projection, without copies of its parts. */
#pragma once

#include "executor/kernel/kernel.h"

/* Finds attentions whose Q, K and V are disjoint parts of one tensor, and together all of it. Split, or Gather with one index,
 * makes the parts; reshapes and transpositions before and after it may only change strides. If no other operator reads the
 * parts, the attention reads the tensor itself, by strides, and backward writes one gradient. The operators between are
 * removed. Must be called after the layouts are chosen. MP_NOMEM. */
mp_status mp_pack_attention(mp_model *model, mp_error *err);

/* Prepares a call of an attention. If its operands are packed, `prepare` and the call it prepares see Q, K, V and their
 * gradients as arrays with strides in the packed tensor. */
mp_status mp_packed_attention_prepare(mp_prepare prepare, const mp_operands *x, mp_call *call, mp_error *err);
