/* team.h - the ranks over which an operator is split, as its kernel sees them: what it exchanges with the others while it runs,
 * and where the elements of a rank's part lie in the whole tensor.
 *
 * All ranks of a team run the same calls in the same order. Sums are in the order of the ranks, so all have the same bits.
 *
 * A tensor of 2 x 6 elements, of whose columns two ranks have a part each: a run is 3 elements, and rank 1 has the second and
 * the fourth of four runs, elements 3, 4, 5 and 9, 10, 11.
 */
#pragma once

#include "executor/kernel/array.h"

/* Returns the elements of a rank's part of n: all parts but the last ones have as many. */
static inline int64_t mp_rank_part(int64_t n, int64_t ranks)
{
    return n / ranks + (n % ranks != 0);
}

/* Returns the bytes into which a sum over ranks of n elements receives what the others have of this rank's part. */
static inline int64_t mp_sum_workspace(int64_t ranks, int64_t n, int64_t element_bytes)
{
    return (mp_rank_part(n, ranks) * element_bytes + 63) / 64 * 64 * (ranks - 1);
}

typedef struct mp_kernel_team mp_kernel_team;
struct mp_kernel_team {
    int n, index; /* the ranks, and which of them this is */
    void *context;
    /* values = the sum of all ranks' values. Workspace: mp_sum_workspace(n, elements). MP_IO: a rank has ended, or is silent.
     */
    mp_status (*sum)(const mp_kernel_team *self, mp_dtype dtype, void *values, int64_t elements, void *workspace,
                     mp_error *err);
    /* own = the sum of what all ranks have for this one: of n pieces, of so many elements each, piece `index`. Workspace:
     * mp_sum_workspace(n, n * elements). */
    mp_status (*scatter)(const mp_kernel_team *self, mp_dtype dtype, const void *pieces, int64_t elements, void *workspace,
                         void *own, mp_error *err);
    /* pieces = those of all ranks, `bytes` each. `own` may be in its place there. */
    mp_status (*gather)(const mp_kernel_team *self, const void *own, int64_t bytes, void *pieces, mp_error *err);
};

/* How the memory of a whole tensor is dealt: runs of so many elements, to the ranks in turn. */
typedef struct mp_dealt {
    int64_t run; /* 0: each rank has the whole */
    int ranks;
} mp_dealt;

/* Returns how a tensor of a split model is dealt that lies in memory as the array says. */
static inline mp_dealt mp_dealt_of(const mp_tensor *tensor, const mp_array *part)
{
    const mp_tensor_part *p = tensor->part;
    if (!p) return (mp_dealt){0, 1};
    return (mp_dealt){part->dims[p->dim] / p->outer * part->strides[p->dim], (int)p->ranks};
}

/* Returns the number in the whole tensor of element k of a rank's part. */
static inline int64_t mp_dealt_place(const mp_dealt *d, int index, int64_t k)
{
    return d->run ? (k / d->run * d->ranks + index) * d->run + k % d->run : k;
}
