/* moving.h - operators that move elements and compute nothing, as lists of boxes between inputs and outputs: forward copies
 * them one way, backward the other. The lists are the same for every backend; what copies them is the backend's own.
 */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/operators/copies/box.h"

/* Elements of input `in` (box strides `from`, from element from_at on) that are elements of output `out` (`to`, to_at). */
typedef struct mp_moving_part {
    int in, out;
    int64_t from_at, to_at;
    mp_box box;
} mp_moving_part;

/* A box of an array, by its corners; what lies outside is filled. `any`: there is something outside. */
typedef struct mp_inside {
    bool any;
    int64_t low[MP_ARRAY_RANK], high[MP_ARRAY_RANK];
} mp_inside;

typedef struct mp_moving {
    size_t n_parts, capacity;
    mp_moving_part *parts;
    bool overlaps; /* several parts read one element of an input */
    mp_inside cut; /* elements of input 0 outside go nowhere */
    mp_inside pad; /* elements of output 0 outside come from nowhere: the value at in[filler], or `value` if that is left out */
    int filler;
    uint64_t value; /* as bytes */
} mp_moving;

/* Describes an operator as parts; backward the same parts over its gradients (mp_operands_in, mp_operands_out). */
typedef mp_status (*mp_moving_rule)(const mp_operands *x, mp_moving *m, mp_error *err);

/* A new part of rank 0. MP_NOMEM. */
mp_status mp_moving_add(mp_moving *m, int in, int out, mp_moving_part **part, mp_error *err);
/* Whether several elements of the output are one of the input. */
bool mp_moving_repeats(const mp_moving_part *p);
/* What lies outside of the corners before (behind) the box along dimension d and inside along those before d, as a box to be
 * written from its first element on, which is returned; reading strides are 0. */
int64_t mp_slab_outside(const mp_array *a, const int64_t *low, const int64_t *high, int d, bool behind, mp_box *slab);
