/* recurrence_places.h - where a recurrent layer's operands lie: parts of them as arrays, and rooms of the workspace. Private to
 * executor/operators/recurrent/. */
#pragma once

#include "executor/operators/recurrent/recurrence.h"

/* A part of a, `rank` dimensions of these sizes and strides, from element `from` on; without data where a has none. */
mp_array mp_part_of(const mp_array *a, int64_t from, int rank, const int64_t *dims, const int64_t *strides);
/* Steps [t, t + n) of X or its gradient, in the order (step, batch, input). */
mp_array mp_steps_of_input(const mp_recurrence *r, const mp_array *x, int64_t t, int64_t n);
/* Steps [t, t + n) of direction d of Y or its gradient, as (step, batch, hidden). */
mp_array mp_steps_of_output(const mp_recurrence *r, const mp_array *y, int d, int64_t t, int64_t n);
/* Direction d of a state (first or last h and c, and their gradients), as (batch, hidden). */
mp_array mp_state_of(const mp_recurrence *r, const mp_array *state, int d);
/* Direction d of W, R, B or P, as it lies behind that dimension. */
mp_array mp_direction_of(const mp_array *a, int d);
/* Contiguous floats of these dimensions. */
mp_array mp_floats_at(float *data, int rank, const int64_t *dims);
/* Whether they lie as contiguous floats. */
bool mp_is_floats(const mp_array *a);

/* Operand i, its gradient; NULL: left out, or not asked for. */
const mp_array *mp_given(const mp_operands *x, int i);
const mp_array *mp_asked(const mp_operands *x, int i);

static inline float *mp_room(const mp_recurrence *r, const mp_operands *x, mp_recurrent_room k)
{
    return r->at[k] < 0 ? NULL : (float *)((char *)x->workspace + r->at[k]);
}

/* Whether direction d runs from the last step to the first. */
static inline bool mp_runs_back(const mp_recurrence *r, int d)
{
    return d == 1 || r->cell.starts_reversed;
}

/* The operands by their numbers. */
enum {
    MP_RECURRENT_X,
    MP_RECURRENT_W,
    MP_RECURRENT_R,
    MP_RECURRENT_B,
    MP_RECURRENT_LENGTHS,
    MP_RECURRENT_H,
    MP_RECURRENT_C, /* LSTM only, like the next one */
    MP_RECURRENT_P
};
