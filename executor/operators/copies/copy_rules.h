/* copy_rules.h - operators that move elements and compute nothing, as lists of boxes between inputs and outputs: forward copies
 * them one way, backward the other. The lists are the same for every backend; what copies them is the backend's own.
 */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/operators/copies/box.h"

/* Elements of input `in` (box strides `from`, from element from_at on) that are elements of output `out` (`to`, to_at). */
typedef struct mp_copies_part {
    int in, out;
    int64_t from_at, to_at;
    mp_box box;
} mp_copies_part;

/* A box of an array, by its corners; what lies outside is filled. `any`: there is something outside. */
typedef struct mp_inside {
    bool any;
    int64_t low[MP_ARRAY_RANK], high[MP_ARRAY_RANK];
} mp_inside;

typedef struct mp_copies {
    const struct mp_copier *by;
    size_t n_parts, capacity;
    mp_copies_part *parts;
    bool overlaps; /* several parts read one element of an input */
    mp_inside cut; /* elements of input 0 outside go nowhere */
    mp_inside pad; /* elements of output 0 outside come from nowhere: the value at in[filler], or `value` if that is left out */
    int filler;
    uint64_t value; /* as bytes */
} mp_copies;

/* Whether several elements of the output are one of the input. */
static inline bool mp_copies_repeats(const mp_copies_part *p)
{
    for (int d = 0; d < p->box.rank; d++)
        if (!p->box.from[d]) return true;
    return false;
}

/* Describes an operator as parts; backward the same parts over its gradients (mp_operands_in, mp_operands_out). MP_NOMEM. */
typedef mp_status mp_copies_rule(const mp_operands *x, mp_copies *m, mp_error *err);

/* The elements in the order of their indices, under other dimensions. MP_UNSUPPORTED: between two layouts that have no common
 * factors. */
mp_copies_rule mp_copies_reshape;
mp_copies_rule mp_copies_transpose;
mp_copies_rule mp_copies_reorder; /* another layout of the same dimensions */
/* Blocks of b x b pixels are b * b groups of channels. */
mp_copies_rule mp_copies_depth_to_space;
mp_copies_rule mp_copies_space_to_depth;
mp_copies_rule mp_copies_concat;
mp_copies_rule mp_copies_split;
mp_copies_rule mp_copies_slice; /* MP_UNSUPPORTED: bounds that are computed while it runs */
mp_copies_rule mp_copies_expand;
mp_copies_rule mp_copies_tile;
mp_copies_rule mp_copies_pad; /* MP_UNSUPPORTED: another mode, or pads that are computed while it runs */
