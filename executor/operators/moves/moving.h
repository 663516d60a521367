/* moves.h - operators that move elements and compute nothing, as lists of boxes between inputs and outputs: forward copies them
 * one way, backward the other. The lists are the same for every backend; what copies is the backend's own. Private to backends.
 */
#ifndef EXECUTOR_CPU_MOVES_H
#define EXECUTOR_CPU_MOVES_H

#include "executor/cpu/moves/strided_copy.h"
#include "executor/kernel/kernel.h"

/* Elements of input `in` (box strides `from`, from element from_at on) that are elements of output `out` (`to`, to_at). */
typedef struct mp_part {
    int in, out;
    int64_t from_at, to_at;
    mp_box box;
} mp_part;

/* A box of an array, by its corners; what lies outside is filled. `any`: there is something outside. */
typedef struct mp_inside {
    bool any;
    int64_t low[MP_ARRAY_RANK], high[MP_ARRAY_RANK];
} mp_inside;

typedef struct mp_moving {
    size_t n_parts, capacity;
    mp_part *parts;
    bool overlaps; /* several parts read one element of an input */
    mp_inside cut; /* elements of input 0 outside go nowhere */
    mp_inside pad; /* elements of output 0 outside come from nowhere: the value at in[filler], or `value` if that is left out */
    int filler;
    uint64_t value; /* as bytes */
} mp_moving;

/* Describes the operator at hand as parts. Arrays: mp_moving_in and mp_moving_out. */
typedef mp_status (*mp_moving_rule)(const mp_operands *x, mp_moving *m, mp_error *err);

/* Input i and output o as they lie in memory; backward, its gradients. */
const mp_array *mp_moving_in(const mp_operands *x, int i);
const mp_array *mp_moving_out(const mp_operands *x, int o);
/* A new part of rank 0. MP_NOMEM. */
mp_status mp_moving_part(mp_moving *m, int in, int out, mp_part **part, mp_error *err);

mp_status mp_moving_prepare(const mp_operands *x, mp_moving_rule rule, mp_call *call, mp_error *err);

/* What lies outside of the corners before (behind) the box along dimension d and inside along those before d, as a box to be
 * written from its first element on, which is returned; reading strides are 0. */
int64_t mp_slab_outside(const mp_array *a, const int64_t *low, const int64_t *high, int d, bool behind, mp_box *slab);
/* Whether several elements of the output are one of the input. */
bool mp_moving_repeats(const mp_part *p);
/* Fills what lies outside of the corners, or all without them (NULL), with the value of the element's size. */
void mp_fill_outside(const mp_array *a, const int64_t *low, const int64_t *high, const void *value);
/* All elements zero. */
void mp_fill_zero(const mp_array *a);

mp_status mp_moving_reshape(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_transpose(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_reorder(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_depth_to_space(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_space_to_depth(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_concat(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_split(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_slice(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_expand(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_tile(const mp_operands *x, mp_moving *m, mp_error *err);
mp_status mp_moving_pad(const mp_operands *x, mp_moving *m, mp_error *err);

mp_status mp_prepare_trilu(const mp_operands *x, mp_call *call, mp_error *err);

/* The attribute `axis`, counted from the front. */
int mp_moving_axis(const mp_operands *x, int64_t otherwise, int rank);

/* The operands as the registry's readers of attributes want them. */
mp_infer mp_moving_reader(const mp_operands *x, mp_error *err);

#endif
