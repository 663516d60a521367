/* loops.h - loop nests for kernels: over broadcast operands with as few loops as possible, for sums over broadcast dimensions,
 * and over lines of an array. Loop nests depend on sizes and strides only, so every backend uses this code. */
#pragma once

#include "executor/kernel/array.h"
#include "executor/kernel/kernel.h"

enum { MP_OPERANDS_MAX = 6, MP_LOOP_OPERANDS = MP_OPERANDS_MAX + 1 };

/* A loop nest over the elements of an output. Dimension 0 is the outermost loop; there is at least one. Operand 0 is the
 * output, the others are the inputs. Strides are in elements; a broadcast operand has stride 0. */
typedef struct mp_loops {
    int rank, n; /* n: number of operands */
    int64_t dims[MP_ARRAY_RANK], strides[MP_LOOP_OPERANDS][MP_ARRAY_RANK];
    int64_t n_elements; /* number of elements of the output */
} mp_loops;

/* Returns the loops over `out`. Dimensions are in the order of the memory of `out`, and merged if all operands allow it. Inputs
 * in[k] are broadcast to the shape of `out`. n_in <= MP_OPERANDS_MAX. */
mp_loops mp_loops_of(const mp_array *const *in, int n_in, const mp_array *out);

/* Loops that sum `from` to the shape of `to`. The summed dimensions have size 1 in `to` or are missing at the front of its
 * shape. Loops are outermost first, in the order of the memory of `from`; summed dimensions are merged if possible. */
typedef struct mp_sum_loops {
    int n_kept, n_reduced;
    int64_t kept[MP_ARRAY_RANK], kept_stride[MP_ARRAY_RANK],
        to_stride[MP_ARRAY_RANK]; /* strides of the kept dimensions in `from` and in `to` */
    int64_t reduced[MP_ARRAY_RANK], reduced_stride[MP_ARRAY_RANK];
    int64_t n_out, n_terms; /* number of sums, and number of terms in each sum */
} mp_sum_loops;

mp_sum_loops mp_sum_loops_of(const mp_array *from, const mp_array *to);

/* An array divided into lines: n lines of `length` elements along the inner dimensions. Softmax, losses and running sums use
 * lines. outer_at and inner_at are strides in elements. */
typedef struct mp_lines {
    int n_outer, n_inner;
    int64_t outer[MP_ARRAY_RANK], inner[MP_ARRAY_RANK], outer_at[MP_ARRAY_RANK], inner_at[MP_ARRAY_RANK];
    int outer_dim[MP_ARRAY_RANK]; /* entry k: index of the outer dimension k among the array's dimensions */
    int64_t n, length;
    bool contiguous; /* true: each line is contiguous */
} mp_lines;

/* Returns the lines along the dimensions whose bits are set in `line`. Lines are numbered row-major over all other dimensions.
 */
mp_lines mp_lines_of(const mp_array *a, uint32_t line);
/* Returns the lines of a softmax's input 0. The softmax normalizes the elements of a line together. */
mp_lines mp_softmax_lines(const mp_operands *x);
