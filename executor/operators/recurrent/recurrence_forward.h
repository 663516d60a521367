/* recurrence_forward.h - a recurrent layer forward. */
#pragma once

#include "executor/operators/recurrent/recurrence.h"

/* Outputs and reserve, as they are asked for. `state` is what the engine's functions get. Fails as they do. */
mp_status mp_recurrence_forward(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                                mp_error *err);
