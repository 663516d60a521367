/* convolutions_cpu.h - which algorithms oneDNN has for the convolution of a node. */
#pragma once

#include "executor/kernel/kernel.h"

/* As in mp_backend; none for other operators. */
mp_status mp_cpu_algorithms(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);
