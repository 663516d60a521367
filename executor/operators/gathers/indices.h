/* indices.h - picking and placing elements by indices that are known when a step runs: what all such operators ask of their
 * operands, for every backend.
 *
 * Two descriptions cover all of them. Rows (row_entries.h): entry k of a list belongs to a row of a table (Gather, GatherND,
 * ScatterND, Compress, MaxUnpool). Lines (index_lines.h): every element has its own index along one axis (GatherElements,
 * ScatterElements).
 */
#pragma once

#include "executor/kernel/element.h"
#include "executor/kernel/kernel.h"

/* Index k of a dense list of INT64 or INT32. */
MP_INLINE int64_t mp_index_of(const void *indices, mp_dtype dtype, int64_t k)
{
    return dtype == MP_DTYPE_INT64 ? ((const int64_t *)indices)[k] : ((const int32_t *)indices)[k];
}
static inline int64_t mp_index_at(const mp_array *indices, int64_t k)
{
    return mp_index_of(indices->data, indices->dtype, k);
}

/* MP_UNSUPPORTED: operands that are packed or of less than a byte per element, indices (input `indices`; -1: there are none)
 * that are not INT64 or INT32 and dense, gradients that are not FLOAT or BFLOAT16. */
mp_status mp_indices_check(const mp_operands *x, int indices, mp_error *err);
