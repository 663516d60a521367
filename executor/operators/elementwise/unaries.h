/* unaries.h - operators of one operand, for every backend: those of unaries.def. */
#pragma once

#include "executor/operators/elementwise/elementwise.h"

/* An mp_prepare with the engine that is to run it. */
mp_status mp_unary_prepare(const mp_engine *engine, const mp_operands *x, mp_call *call, mp_error *err);
