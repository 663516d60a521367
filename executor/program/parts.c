/* parts.c - copies a rank's part of a tensor into the whole tensor, or out of it. */
#include "executor/program/parts.h"

#include <string.h>

#include "estimator/model/ops.h"

mp_array mp_whole_array(const mp_tensor *t)
{
    return mp_array_plain(t->dtype, t->rank, mp_tensor_whole_dims(t));
}

/* The contiguous pieces (runs) of a rank's part: n runs of `bytes` bytes each. In the whole tensor, the runs of rank 0, 1, ...
 * alternate. */
typedef struct runs {
    int64_t n, ranks;
    size_t bytes;
} runs;

static runs runs_of(const mp_tensor *t, int64_t element)
{
    const int64_t n = mp_tensor_elements(t) * element;
    if (!t->part || !n) return (runs){1, 1, (size_t)n};
    const int64_t bytes = t->dims[t->part->dim] / t->part->outer * mp_product(t->dims, t->part->dim + 1, t->rank) * element;
    return (runs){n / bytes, t->part->ranks, (size_t)bytes};
}

void mp_part_take(const mp_tensor *t, int64_t index, int64_t element, const void *whole, void *part)
{
    const runs r = runs_of(t, element);
    for (int64_t k = 0; k < r.n; k++)
        memcpy((char *)part + (size_t)k * r.bytes,
               (const char *)whole + (size_t)(k * r.ranks + (r.ranks > 1 ? index : 0)) * r.bytes, r.bytes);
}

void mp_part_put(const mp_tensor *t, int64_t index, int64_t element, const void *part, void *whole)
{
    const runs r = runs_of(t, element);
    for (int64_t k = 0; k < r.n; k++)
        memcpy((char *)whole + (size_t)(k * r.ranks + (r.ranks > 1 ? index : 0)) * r.bytes,
               (const char *)part + (size_t)k * r.bytes, r.bytes);
}
