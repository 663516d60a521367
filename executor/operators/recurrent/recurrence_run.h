/* recurrence_run.h - a recurrent layer run: forward or backward, as its operands say. */
#pragma once

#include "executor/operators/recurrent/recurrence_backward.h"
#include "executor/operators/recurrent/recurrence_forward.h"
#include "executor/operators/recurrent/recurrence_prepare.h"

static inline mp_status mp_recurrence_run(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state,
                                          const mp_operands *x, mp_error *err)
{
    return (x->is_backward ? mp_recurrence_backward : mp_recurrence_forward)(r, engine, state, x, err);
}
