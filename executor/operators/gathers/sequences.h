/* sequences.h - ReverseSequence and OneHot, for every backend: which operands they take. */
#pragma once

#include "executor/operators/gathers/indices.h"

/* They need no state, and `run` is the backend's. MP_UNSUPPORTED: types or layouts; MP_INVALID: axes that do not fit. */
mp_status mp_reverse_sequence_prepare(const mp_operands *x, mp_call *call, mp_error *err);
mp_status mp_one_hot_prepare(const mp_operands *x, mp_call *call, mp_error *err);
