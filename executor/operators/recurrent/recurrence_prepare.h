/* recurrence_prepare.h - a recurrent layer made ready to run: sizes of blocks, rooms in the workspace, products. */
#pragma once

#include "executor/operators/recurrent/recurrence.h"

/* A call's state of `bytes`, which begins with an mp_recurrence and is what the engine's functions get; call->run and
 * call->release are the backend's. MP_UNSUPPORTED names what is not computed here; MP_NOMEM. */
mp_status mp_recurrence_prepare(const mp_operands *x, const mp_recurrent_engine *engine, size_t bytes, mp_call *call,
                                mp_error *err);
