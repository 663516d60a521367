/* recurrence_pass.h - one direction of a pass through a recurrent layer, as it goes from block to block. Private to
 * executor/operators/recurrent/. */
#pragma once

#include "executor/operators/recurrent/recurrence_places.h"

typedef struct mp_recurrent_pass {
    const mp_recurrence *r;
    const mp_recurrent_engine *engine;
    void *state;
    const mp_operands *x;
    mp_error *err;
    int d;
    bool back;                     /* from the last step to the first */
    const float *w, *weights_of_h; /* W, and R */
    float *gates, *second, *kept;  /* of all steps, in the reserve; NULL: not kept there */
    float *states;                 /* of a block and the step before it, in the order of time */
    float *h_first;                /* h before the first step */
    mp_cells cells;                /* what is the same in all steps */
} mp_recurrent_pass;

/* Weights, first states, and places of direction d. */
mp_recurrent_pass mp_recurrent_begin(const mp_recurrence *r, const mp_recurrent_engine *engine, void *state,
                                     const mp_operands *x, int d, mp_error *err);
/* Product k with its workspace. */
mp_status mp_recurrent_multiply(const mp_recurrent_pass *p, int k, const float *a, const float *b, float *c);
/* The input of steps [t, t + n) as contiguous floats. */
const float *mp_recurrent_input(const mp_recurrent_pass *p, int64_t t, int64_t n);
/* An operand's direction as contiguous floats: where it lies, or copied to room k; zeros where it is left out. */
const float *mp_recurrent_weight(const mp_recurrent_pass *p, int i, mp_recurrent_room k);
/* A state's direction, copied to room k; zeros where it is left out (NULL). */
float *mp_recurrent_state(const mp_recurrent_pass *p, const mp_array *a, mp_recurrent_room k);

/* Floats of a step: states; all gates. */
static inline int64_t mp_step_floats(const mp_recurrence *r)
{
    return r->sizes.batch * r->sizes.hidden;
}
static inline int64_t mp_gate_floats(const mp_recurrence *r)
{
    return mp_step_floats(r) * r->gates;
}
/* Where p->states has h of step s of the block, and h of the step before it. */
static inline float *mp_state_at(const mp_recurrent_pass *p, int64_t s)
{
    return p->states + (s + !p->back) * mp_step_floats(p->r);
}
static inline float *mp_state_before(const mp_recurrent_pass *p, int64_t s)
{
    return p->states + (s + p->back) * mp_step_floats(p->r);
}
