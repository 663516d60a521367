/* reduction_cpu.h - one value from many, along any dimensions of a float array.
 *
 * Sums are kept in double. Which elements are added in which order follows from the shapes alone: long reductions to few
 * outputs are cut into parts whose results are joined in order, so every number of threads gives the same bits.
 */
#pragma once

#include "executor/operators/reductions/reduced.h"

enum { MP_REDUCTION_LANES = 128 };

/* Kept and reduced dimensions, outermost first; the strides of the array that is reduced, of the results and of the shifts. */
typedef struct mp_reduction {
    int n_kept, n_reduced;
    int64_t kept[MP_ARRAY_RANK + 1], kept_stride[MP_ARRAY_RANK + 1], to_stride[MP_ARRAY_RANK + 1],
        shift_stride[MP_ARRAY_RANK + 1];
    int64_t reduced[MP_ARRAY_RANK + 1], reduced_stride[MP_ARRAY_RANK + 1];
    int64_t n_out, n_terms;
    bool by_columns;     /* the innermost dimension is kept */
    int64_t lanes;       /* outputs along the innermost kept dimension that are made together ... */
    int64_t n_groups;    /* ... in so many groups */
    int64_t run, pieces; /* terms of a group: rows of columns, or pieces of at most `run` terms of the innermost dimension */
    int64_t parts;       /* each group's pieces are cut into so many parts */
    int64_t workspace_bytes;
} mp_reduction;

/* Describes the reduction of `from` to `to`, which has the same rank, and size 1 in the reduced dimensions. `shift` (NULL:
 * there is none) has the shape of `to`, and may have another layout. */
void mp_reduction_describe(mp_reduction *r, const mp_array *from, const mp_array *to, const mp_array *shift);
/* Runs a description on arrays of the layouts that it was made for. `to` may be `shift`; the workspace has workspace_bytes. */
void mp_reduction_run(const mp_reduction *r, mp_reduction_step step, mp_reduction_end end, const mp_array *from,
                      const mp_array *to, const mp_array *shift, void *workspace);
