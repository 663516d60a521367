/* loops.h - the loop nest over operands that broadcast to one shape, in its simplest form; a sum over what was broadcast;
 * and lines. All are found from the arrays' sizes and strides alone, and are the same for every backend.
 */
#pragma once

#include "executor/kernel/array.h"
#include "executor/kernel/kernel.h"

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

/* An array as lines along some of its dimensions: softmax, losses, running sums. */
typedef struct mp_lines {
    int n_outer, n_inner;
    int64_t outer[MP_ARRAY_RANK], inner[MP_ARRAY_RANK], outer_at[MP_ARRAY_RANK], inner_at[MP_ARRAY_RANK];
    int outer_dim[MP_ARRAY_RANK]; /* the dimension of the array that outer[k] is */
    int64_t n, length;
    bool contiguous; /* each line is */
} mp_lines;

/* Lines along the dimensions whose bits are set, in the order of the dimensions; line k counts the other dimensions row-major.
 */
mp_lines mp_lines_of(const mp_array *a, uint32_t line);
/* The lines of input 0 that a softmax works along. */
mp_lines mp_softmax_lines(const mp_operands *x);
