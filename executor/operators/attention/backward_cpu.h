/* backward_cpu.h - the gradients of attention on the CPU. */
#pragma once

#include "executor/kernel/kernel.h"

/* An mp_prepare. */
mp_status mp_attention_backward_prepare(const mp_operands *x, mp_call *call, mp_error *err);
