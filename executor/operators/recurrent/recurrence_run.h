/* recurrence_run.h - a recurrent layer run: forward or backward, as its operands say. */
#pragma once

#include "executor/operators/recurrent/recurrence.h"

/* Outputs and reserve, or gradients, as they are asked for; gradients are added where x->adds says so. `state` is what the
 * engine's functions get. Fails as they do. */
mp_status mp_recurrence_run(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state, const mp_operands *x,
                            mp_error *err);
