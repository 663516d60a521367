/* recurrence_backward.h - the gradients of a recurrent layer. */
#pragma once

#include "executor/operators/recurrent/recurrence.h"

/* Those that are asked for, added where x->adds says so. `state` is what the engine's functions get. Fails as they do. */
mp_status mp_recurrence_backward(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                                 mp_error *err);
