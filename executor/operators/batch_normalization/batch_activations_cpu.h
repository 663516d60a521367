/* batch_activations_cpu.h - BatchNormalizationRelu and BatchNormalizationAddRelu on the CPU. */
#pragma once

#include "executor/kernel/kernel.h"

/* Of a forward or a backward call, as rows of tables have it. */
mp_status mp_batch_activation_prepare(const mp_operands *x, mp_call *call, mp_error *err);
