/* lines.h - an array as lines along some of its dimensions: softmax, losses, running sums. For every backend.
 */
#pragma once

#include "executor/kernel/kernel.h"

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
