/* losses.h - losses over classes and over numbers. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_LOSSES_H
#define EXECUTOR_CPU_LOSSES_H

#include "executor/kernel/kernel.h"

/* SoftmaxCrossEntropyLoss, and NegativeLogLikelihoodLoss, which is given the log-probabilities. */
mp_status mp_prepare_cross_entropy(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_prepare_squared_error(const mp_operands *x, mp_call *call, mp_error *err);

/* out = x - log(sum(e^x)) over n values; room: MP_BLOCK floats. out may be x. */
void mp_log_softmax_line(const float *x, int64_t n, float *out, float *room);

#endif
