/* layout.h - reads the operands of layout operators, for their shape rules (shapes_layout.c) and fold rules (fold_layout.c).
 * Some operands were attributes in earlier operator-set versions and are inputs in later ones; these functions check the
 * version. */
#pragma once

#include "estimator/model/ops.h"

/* The elements that a Slice selects along each dimension d of input 0: size[d] elements start[d], start[d] + step[d], ... If
 * the values of the operands are unknown, *known is false and missing_value is set. MP_PARSE: invalid operands. */
typedef struct mp_slice {
    int64_t start[MP_RANK_MAX], step[MP_RANK_MAX], size[MP_RANK_MAX];
} mp_slice;
mp_status mp_slice_read(mp_infer *c, mp_slice *slice, bool *known);

/* Reads the permutation of a Transpose: dimension k of the output is dimension permutation[k] of the input. MP_PARSE: not a
 * permutation. */
mp_status mp_permutation_read(mp_infer *c, int permutation[MP_RANK_MAX]);

/* Reads a list of integers that became an input in operator set `moved`: before, it is the attribute `name`; from then on,
 * it is input k. *list is NULL if the list is absent or unknown; only in the latter case missing_value is set. MP_PARSE: an
 * invalid list. */
mp_status mp_moved_integers(mp_infer *c, const char *name, int moved, int k, const int64_t **list, size_t *n);
/* True if a Transpose moves only dimensions of size 1, so that every element keeps its position in memory. The shape of the
 * operator must be inferred. */
bool mp_permutation_moves_ones(const mp_model *model, const mp_operator *op);
