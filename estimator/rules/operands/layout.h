/* layout.h - how the layout operators read their operands, shared by their shape rules (shapes_layout.c) and fold rules
 * (fold_layout.c). Where the meaning of an operand moved from an attribute to an input, these functions look at the version. */
#pragma once

#include "estimator/model/ops.h"

/* The elements of a Slice along each dimension d of input 0: start[d], start[d] + step[d], ..., size[d] of them. *known
 * is false (and missing_value set) if the operands' values are not known. MP_PARSE. */
typedef struct mp_slice {
    int64_t start[MP_RANK_MAX], step[MP_RANK_MAX], size[MP_RANK_MAX];
} mp_slice;
mp_status mp_slice_read(mp_infer *c, mp_slice *slice, bool *known);

/* Reads the permutation of Transpose: dimension k of the output is dimension permutation[k] of the input. MP_PARSE. */
mp_status mp_permutation_read(mp_infer *c, int permutation[MP_RANK_MAX]);

/* Reads a list of integers that was the attribute `name` before operator set `moved` and is input k since. *list is
 * NULL if it is absent or not known (missing_value then says which). MP_PARSE. */
mp_status mp_moved_integers(mp_infer *c, const char *name, int moved, int k, const int64_t **list, size_t *n);
/* True if a Transpose, whose shape is inferred, moves dimensions of size 1 only: every element stays where it is. */
bool mp_permutation_moves_ones(const mp_model *model, const mp_operator *op);
