/* index_lines.h - elements that each have their own index along one axis, for every backend: GatherElements, ScatterElements.
 *
 * Each line along the axis belongs to one thread, which walks it from its beginning; so results do not depend on the number of
 * threads.
 */
#pragma once

#include "executor/operators/gathers/indices.h"

/* Every element of `other`, which has the dims of the indices, has its own index into the table along the axis. */
typedef struct mp_index_lines {
    const mp_array *table, *other, *indices;
    int axis;
} mp_index_lines;

/* Besides the axis, indices are inside the table, and `other` has their shape. MP_INVALID. */
mp_status mp_index_lines_check(const mp_index_lines *lines, const mp_operands *x, mp_error *err);

/* Checks GatherElements; it needs no state, and `run` is the backend's. */
mp_status mp_gather_elements_prepare(const mp_operands *x, mp_call *call, mp_error *err);
