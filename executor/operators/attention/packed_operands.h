/* packed_operands.h - attention that reads Q, K and V in the tensor of one projection, without copies of its parts. */
#pragma once

#include "executor/kernel/kernel.h"

/* Makes attentions read Q, K and V directly from a packed tensor, by strides. Q, K and V must be disjoint parts of this tensor
 * and together all of it. A Split, or Gathers with one index, make the parts; the reshapes and transpositions before and after
 * may only change strides. No other operator may read the parts. These operators are removed, and backward writes one gradient.
 * Must be called after the layouts are chosen. MP_NOMEM. */
mp_status mp_pack_attention(mp_model *model, mp_error *err);

/* Prepares a call of an attention with `prepare`. If the operands are packed, `prepare` and its call receive Q, K, V and their
 * gradients as arrays with strides in the packed tensor. */
mp_status mp_packed_attention_prepare(mp_prepare prepare, const mp_operands *x, mp_call *call, mp_error *err);
