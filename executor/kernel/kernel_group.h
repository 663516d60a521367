/* kernel_group.h - the ranks over which an operator is split. Gives the operator's kernel sums and gathers over these ranks,
 * and the positions of a rank's elements in the whole tensor.
 *
 * All ranks of a group run the same calls in the same order. Sums use the order of the ranks, so all ranks have bit-identical
 * results.
 *
 * Example: two ranks split the columns of a tensor of 2 x 6 elements. A run has 3 elements, so the tensor consists of four
 * runs. Rank 1 holds the second and the fourth run: elements 3, 4, 5 and 9, 10, 11. */
#pragma once

#include "estimator/network/ranges.h"
#include "executor/kernel/array.h"

/* Returns the workspace bytes for a sum over ranks of n elements. The workspace receives, from each other rank, that rank's
 * values for the part that this rank sums. */
static inline int64_t mp_sum_workspace(int64_t ranks, int64_t n, int64_t element_bytes)
{
    return (mp_rank_part(n, ranks) * element_bytes + 63) / 64 * 64 * (ranks - 1);
}

typedef struct mp_kernel_group mp_kernel_group;
struct mp_kernel_group {
    int n, index; /* n: number of ranks of the group; index: position of this rank among them */
    void *context;
    /* All-reduce: values[k] becomes the sum over all ranks of their values[k]. Workspace: mp_sum_workspace(n, elements).
     * MP_IO: a rank has ended or does not answer. */
    mp_status (*sum)(const mp_kernel_group *self, mp_dtype dtype, void *values, int64_t elements, void *workspace,
                     mp_error *err);
    /* Reduce-scatter: `pieces` contains n pieces of `elements` elements; `own` becomes the sum over all ranks of piece `index`.
     * Workspace: mp_sum_workspace(n, n * elements). */
    mp_status (*scatter)(const mp_kernel_group *self, mp_dtype dtype, const void *pieces, int64_t elements, void *workspace,
                         void *own, mp_error *err);
    /* All-gather: `pieces` becomes the pieces of all ranks, `bytes` each. `own` may already be stored at its final place in
     * `pieces`. */
    mp_status (*gather)(const mp_kernel_group *self, const void *own, int64_t bytes, void *pieces, mp_error *err);
};

/* The distribution of a whole tensor's elements, in memory order, over ranks: runs of `run` elements, assigned to the ranks in
 * turn. */
typedef struct mp_dealt {
    int64_t run; /* number of elements per run, a contiguous piece on one rank; 0: each rank holds the whole tensor */
    int ranks;
} mp_dealt;

/* Returns the distribution over ranks of a tensor in a split model; `part` describes the memory layout of this rank's part. */
static inline mp_dealt mp_dealt_of(const mp_tensor *tensor, const mp_array *part)
{
    const mp_tensor_part *p = tensor->part;
    if (!p) return (mp_dealt){0, 1};
    return (mp_dealt){part->dims[p->dim] / p->outer * part->strides[p->dim], (int)p->ranks};
}

/* Returns the index in the whole tensor of element k of a rank's part. */
static inline int64_t mp_dealt_index(const mp_dealt *d, int index, int64_t k)
{
    return d->run ? (k / d->run * d->ranks + index) * d->run + k % d->run : k;
}
