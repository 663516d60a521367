/* products.h - the parts of the family of products. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_PRODUCTS_H
#define EXECUTOR_CPU_PRODUCTS_H

#include "executor/kernel/kernel.h"

mp_status mp_prepare_einsum(const mp_operands *x, mp_call *call, mp_error *err);

#endif
