/* binaries.h - operators of two or three operands that broadcast, for every backend: those of binaries.def, Where,
 * FastGelu, BiasGelu. */
#pragma once

#include "executor/operators/elementwise/elementwise.h"

/* An mp_prepare with the engine that is to run it. */
mp_status mp_binary_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_where_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_biased_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
