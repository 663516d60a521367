/* lines.cuh - where the elements of lines lie, for kernels whose rows are lines of an array. */
#pragma once

#include "executor/cuda/grid/family.cuh"
extern "C" {
#include "executor/kernel/loops.h"
}

struct mp_line_places {
    int n_outer, n_inner;
    int64_t outer[MP_ARRAY_RANK], outer_at[MP_ARRAY_RANK], inner[MP_ARRAY_RANK], inner_at[MP_ARRAY_RANK];

    MP_BODY int64_t find(int64_t line, int64_t element) const
    {
        return mp_strided_place(n_outer, outer, outer_at, line) + mp_strided_place(n_inner, inner, inner_at, element);
    }
};

/* Outer dimensions that lie one behind the other are merged. */
static inline mp_line_places mp_line_places_of(const mp_lines *lines)
{
    mp_line_places p = {};
    for (int d = 0; d < lines->n_outer; d++) {
        if (lines->outer[d] == 1) continue;
        const int last = p.n_outer - 1;
        if (last >= 0 && p.outer_at[last] == lines->outer_at[d] * lines->outer[d]) {
            p.outer[last] *= lines->outer[d];
            p.outer_at[last] = lines->outer_at[d];
        } else {
            p.outer[p.n_outer] = lines->outer[d];
            p.outer_at[p.n_outer++] = lines->outer_at[d];
        }
    }
    p.n_inner = lines->n_inner;
    for (int d = 0; d < lines->n_inner; d++) {
        p.inner[d] = lines->inner[d];
        p.inner_at[d] = lines->inner_at[d];
    }
    return p;
}
