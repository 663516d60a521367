/* copies.h - operators that move elements and compute nothing (copies, slices, pads), for every backend: each is a list of
 * boxes between its inputs and outputs, which a backend copies one way forward, and the other way backward, where it adds or
 * sums.
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

/* A box of an array, by its corners: what lies outside of it is filled. `any` is true if something lies outside. */
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

/* True if several elements of the output are copies of one element of the input. */
static inline bool mp_copies_repeats(const mp_copies_part *p)
{
    for (int d = 0; d < p->box.rank; d++)
        if (!p->box.from[d]) return true;
    return false;
}

/* Describes an operator as parts; backward the same parts over its gradients (mp_operands_in, mp_operands_out). MP_NOMEM. */
typedef mp_status mp_copies_rule(const mp_operands *x, mp_copies *m, mp_error *err);

/* Keeps the elements in the order of their indices, under other dimensions. MP_UNSUPPORTED: the two layouts have no common
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

/* X(kind, domain, rule) for each operator that is a list of parts; the rule is mp_copies_RULE. */
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

/* What a backend does with a list. Elements of `size` bytes. */
typedef struct mp_copier {
    void (*copy)(const mp_box *box, int size, const void *from, void *to);
    /* All elements of the writing side become the value, which is in the program's memory. */
    void (*fill)(const mp_box *box, int size, const void *value, void *to);
    void (*zero)(const mp_array *to);
    /* `to` += `from`; `to` = (or +=) the sum of `from` over the dimensions in which `to` has size 1. */
    void (*add)(const mp_array *from, const mp_array *to);
    void (*sum)(const mp_array *from, const mp_array *to, bool add, void *workspace);
    mp_status (*done)(mp_error *err); /* at the end of a run */
    /* Before backward: which gradients it adds to by itself, and the workspace. */
    void (*plan)(const mp_operands *x, const mp_copies *m, mp_call *call);
} mp_copier;

/* Describes the operator at hand by its rule: an mp_copies becomes the call's state, which the copier runs. MP_UNSUPPORTED:
 * operands of a type, layout or rank that cannot be moved; MP_NOMEM. */
mp_status mp_copies_prepare(const mp_operands *x, mp_call *call, const mp_copier *by, mp_error *err);
/* True if backward writes the gradient of what this part reads. */
bool mp_copies_wants(const mp_operands *x, const mp_copies_part *p);
/* Describes a part of the gradients as two arrays. Dimensions along which the part reads one element several times have size 1
 * in *to. */
void mp_copies_arrays(const mp_copies_part *p, const mp_array *d_out, const mp_array *d_in, mp_array *from, mp_array *to);

/* The mp_prepare of a backend that has a `copier`, and the row of each operator in its table. */
#define MP_COPIES_PREPARE                                                        \
    static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err) \
    {                                                                            \
        return mp_copies_prepare(x, call, &copier, err);                         \
    }
#define MP_COPIES_ROW(kind, domain, rule) {kind, domain, prepare, prepare},
