/* loops.h - the loop nest over operands that broadcast to one shape, in its simplest form; and a sum over what was broadcast.
 * Both are found from the arrays' sizes and strides alone, and are the same for every backend.
 */
#pragma once

#include "executor/kernel/array.h"

enum { MP_OPERANDS_MAX = 6, MP_LOOP_OPERANDS = MP_OPERANDS_MAX + 1 };

/* Dimension 0 is outermost; there is at least one. Operand 0 is the output, the others follow. */
typedef struct mp_loops {
    int rank, n; /* n: operands */
    int64_t dims[MP_ARRAY_RANK], strides[MP_LOOP_OPERANDS][MP_ARRAY_RANK];
    int64_t n_elements; /* of the output */
} mp_loops;

/* The loops over `out`, dimensions in the order of its memory and merged where all operands allow it; in[k] are broadcast to
 * its shape. n_in <= MP_OPERANDS_MAX. */
mp_loops mp_loops_of(const mp_array *const *in, int n_in, const mp_array *out);

/* Summing `from` to the shape of `to`: over the dimensions in which `to` has size 1, or that it lacks in front. Outermost
 * first, in the order of the memory of `from`; what is summed is merged. */
typedef struct mp_sum_loops {
    int n_kept, n_reduced;
    int64_t kept[MP_ARRAY_RANK], kept_stride[MP_ARRAY_RANK], to_stride[MP_ARRAY_RANK]; /* strides in `from`, in `to` */
    int64_t reduced[MP_ARRAY_RANK], reduced_stride[MP_ARRAY_RANK];
    int64_t n_out, n_terms; /* how many sums, of how many terms each */
} mp_sum_loops;

mp_sum_loops mp_sum_loops_of(const mp_array *from, const mp_array *to);
