/* pools.h - the parts of the family of pools. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_POOLS_H
#define EXECUTOR_CPU_POOLS_H

#include "executor/kernel/kernel.h"

mp_status mp_prepare_max_unpool(const mp_operands *x, mp_call *call, mp_error *err);

#endif
