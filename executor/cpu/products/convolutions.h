/* convolutions.h - which algorithms oneDNN has for the convolution of a node. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_CONVOLUTIONS_H
#define EXECUTOR_CPU_CONVOLUTIONS_H

#include "executor/kernel/kernel.h"

/* As in mp_backend; none for other operators. */
mp_status mp_cpu_algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);

#endif
