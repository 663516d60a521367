/* slices.h - Concat, Split, Slice as parts (mp_moving_rule): stretches of a tensor along its axes. */
#pragma once

#include "executor/operators/copies/moving.h"

mp_status mp_moving_concat(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_split(const mp_operands *x, mp_moving *m, mp_error *err);
/* MP_UNSUPPORTED: bounds that are computed while it runs. */
mp_status mp_moving_slice(const mp_operands *x, mp_moving *m, mp_error *err);
