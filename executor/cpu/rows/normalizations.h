/* normalizations.h - the parts of the family of normalizations. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_NORMALIZATIONS_H
#define EXECUTOR_CPU_NORMALIZATIONS_H

#include "executor/kernel/kernel.h"

mp_status mp_prepare_batch_normalization(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_lp_normalization(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_lrn(const mp_operands *x, mp_call *call, mp_error *err);

#endif
