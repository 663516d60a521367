/* recurrence_prepare.h - a recurrent layer made ready to run: sizes of blocks, rooms in the workspace, products. */
#ifndef EXECUTOR_RECURRENCE_PREPARE_H
#define EXECUTOR_RECURRENCE_PREPARE_H

#include "executor/operators/recurrent/recurrence.h"

/* `state` is what the engine's functions get. MP_UNSUPPORTED names what is not computed here. */
mp_status mp_recurrence_prepare(const mp_operands *x, const mp_recurrent_engine *engine, void *state, mp_recurrence *out,
                                mp_call *call, mp_error *err);

#endif
