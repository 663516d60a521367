/* copies.h - operators that only copy elements (transpositions, slices, pads), for every backend. Each operator is a list of
 * boxes between its inputs and outputs. Forward copies the boxes; backward copies, adds or sums in the opposite direction. */
#pragma once

#include "executor/kernel/kernel.h"
#include "executor/operators/copies/box.h"

/* A part of an operator: a box that copies elements of input `in` (from offset from_at on, with strides box.from) to output
 * `out` (from offset to_at on, with strides box.to). */
typedef struct mp_copies_part {
    int in, out;
    int64_t from_at, to_at;
    mp_box box;
} mp_copies_part;

/* A rectangular region of an array: the indices [low[d], high[d]) in each dimension d. any: the array has elements outside of
 * the region. */
typedef struct mp_inside {
    bool any;
    int64_t low[MP_ARRAY_RANK], high[MP_ARRAY_RANK];
} mp_inside;

typedef struct mp_copies {
    const struct mp_copier *by;
    size_t n_parts, capacity;
    mp_copies_part *parts;
    bool overlaps; /* true: several parts (boxes to copy) read the same element of an input */
    mp_inside cut; /* elements of input 0 outside of this region are not copied */
    mp_inside pad; /* elements of output 0 outside of this region become in[filler], or `value` if input `filler` is absent */
    int filler;
    uint64_t value; /* the value of elements that are filled, stored as the bytes of the element type */
} mp_copies;

/* True if several elements of the output are copies of one element of the input. */
static inline bool mp_copies_repeats(const mp_copies_part *p)
{
    for (int d = 0; d < p->box.rank; d++)
        if (!p->box.from[d]) return true;
    return false;
}

/* Describes an operator as a list of parts (boxes to copy); in backward, as the same parts between the gradients
 * (mp_operands_in, mp_operands_out). MP_NOMEM. */
typedef mp_status mp_copies_rule(const mp_operands *x, mp_copies *m, mp_error *err);

/* Copies elements in index order to an array with other dimensions. MP_UNSUPPORTED: no common loop nest describes both
 * layouts. */
mp_copies_rule mp_copies_reshape;
mp_copies_rule mp_copies_transpose;
mp_copies_rule mp_copies_reorder; /* copies elements to an array with the same dimensions in another memory layout */
/* Copy each group of b * b channels to blocks of b x b pixels (depth_to_space), and back (space_to_depth). */
mp_copies_rule mp_copies_depth_to_space;
mp_copies_rule mp_copies_space_to_depth;
mp_copies_rule mp_copies_concat;
mp_copies_rule mp_copies_split;
mp_copies_rule mp_copies_slice; /* describes Slice. MP_UNSUPPORTED: the bounds are only known at run time */
mp_copies_rule mp_copies_expand;
mp_copies_rule mp_copies_tile;
mp_copies_rule mp_copies_pad; /* describes Pad. MP_UNSUPPORTED: the mode is unknown, or the pads are only known at run time */

/* X(kind, domain, RULE) for each operator that only copies; the function mp_copies_RULE describes the operator. */
#define MP_COPIES(X)                      \
    X("Reshape", "", reshape)             \
    X("Reshape", "memplan", reshape)      \
    X("Flatten", "", reshape)             \
    X("Squeeze", "", reshape)             \
    X("Unsqueeze", "", reshape)           \
    X("Transpose", "", transpose)         \
    X("Concat", "", concat)               \
    X("Split", "", split)                 \
    X("Slice", "", slice)                 \
    X("Expand", "", expand)               \
    X("Tile", "", tile)                   \
    X("Pad", "", pad)                     \
    X("DepthToSpace", "", depth_to_space) \
    X("SpaceToDepth", "", space_to_depth) \
    X("Reorder", "memplan", reorder)

/* The functions of a backend that copy boxes; elements have `size` bytes. */
typedef struct mp_copier {
    void (*copy)(const mp_box *box, int size, const void *from, void *to);
    /* Sets all elements that the box writes to one value, which is read from host memory. */
    void (*fill)(const mp_box *box, int size, const void *value, void *to);
    void (*zero)(const mp_array *to);
    /* add: `to` += `from`. sum: `to` = (or +=) the sum of `from` over the dimensions in which `to` has size 1. */
    void (*add)(const mp_array *from, const mp_array *to);
    void (*sum)(const mp_array *from, const mp_array *to, bool add, void *workspace);
    mp_status (*done)(mp_error *err); /* called after the last copy of a call; returns the failure of a copy, if any */
    /* When backward is prepared: sets the gradients that the copier itself accumulates, and the bytes of workspace. */
    void (*plan)(const mp_operands *x, const mp_copies *m, mp_call *call);
} mp_copier;

/* Describes which boxes the operator copies, as its row in the table of copy operators states. The description (mp_copies)
 * becomes the call's state. The copier `by` runs the call.
 * MP_UNSUPPORTED: the type, layout or rank of an operand is not supported; MP_NOMEM. */
mp_status mp_copies_prepare(const mp_operands *x, mp_call *call, const mp_copier *by, mp_error *err);
/* True if backward must write the gradient of the input that part `p` (a box to copy) reads. */
bool mp_copies_wants(const mp_operands *x, const mp_copies_part *p);
/* Describes the gradients that a part (a box to copy) reads and writes as two arrays. Dimensions along which the part repeats
 * an element have size 1 in *to. */
void mp_copies_arrays(const mp_copies_part *p, const mp_array *d_out, const mp_array *d_in, mp_array *from, mp_array *to);

/* Define the mp_prepare of a backend that has a `copier`, and the row of each operator in its table. */
#define MP_COPIES_PREPARE                                                        \
    static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err) \
    {                                                                            \
        return mp_copies_prepare(x, call, &copier, err);                         \
    }
#define MP_COPIES_ROW(kind, domain, rule) {kind, domain, prepare, prepare},
