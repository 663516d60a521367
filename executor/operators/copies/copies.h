/* copies.h - operators that move elements and compute nothing: copies, slices, pads. Lists of boxes (copy_rules.h) that a
 * backend copies one way forward, and the other way backward, where it adds or sums.
 */
#pragma once

#include "executor/operators/copies/copy_rules.h"

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
/* Whether backward writes what a part reads. */
bool mp_copies_wants(const mp_operands *x, const mp_copies_part *p);
/* A part of the gradients as arrays; what it reads several times has one element in *to. */
void mp_copies_arrays(const mp_copies_part *p, const mp_array *d_out, const mp_array *d_in, mp_array *from, mp_array *to);

/* The mp_prepare of a backend that has a `copier`, and the row of each operator in its table. */
#define MP_COPIES_PREPARE                                                        \
    static mp_status prepare(const mp_operands *x, mp_call *call, mp_error *err) \
    {                                                                            \
        return mp_copies_prepare(x, call, &copier, err);                         \
    }
#define MP_COPIES_ROW(kind, domain, rule) {kind, domain, prepare, prepare},
