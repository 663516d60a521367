/* box.cuh - boxes (box.h) in GPU kernels: the offsets at which element k of a box is read and written, and types for elements
 * of any size. */
#pragma once

#include "executor/cuda/grid/grid.cuh"

extern "C" {
#include "executor/operators/copies/box.h"
}

/* A box in the form that kernels receive. It computes the read and write offsets of element k; the last dimension is
 * innermost. */
struct mp_boxed {
    int rank;
    int64_t n;
    mp_divisor dims[MP_BOX_RANK];
    int64_t from[MP_BOX_RANK], to[MP_BOX_RANK];

    explicit mp_boxed(const mp_box *box)
    {
        rank = box->rank;
        n = mp_box_elements(box);
        for (int d = 0; d < MP_BOX_RANK; d++) {
            dims[d] = mp_divisor_of(d < rank ? box->dims[d] : 1);
            from[d] = d < rank ? box->from[d] : 0;
            to[d] = d < rank ? box->to[d] : 0;
        }
    }
    MP_BODY void find(int64_t k, int64_t *from_at, int64_t *to_at) const
    {
        *from_at = *to_at = 0;
        for (int d = rank - 1; d >= 0; d--) {
            int64_t index;
            k = mp_divide_rest(k, &dims[d], &index);
            *from_at += index * from[d];
            *to_at += index * to[d];
        }
    }
};

/* An element of 16 bytes. */
struct alignas(16) mp_wide {
    uint64_t x[2];
};

/* Reinterprets a normalized box as larger elements of up to 16 bytes, if the strides and addresses of both arrays permit it.
 * `from` NULL: only the written array is checked. Returns the size of the elements. */
static inline int mp_box_widen(mp_box *box, int size, const void *from, const void *to)
{
    const int last = box->rank - 1;
    if (last < 0 || box->to[last] != 1 || (from && box->from[last] != 1)) return size;
    for (int unit = 16; unit > size; unit /= 2) {
        const int64_t f = unit / size;
        bool fits = box->dims[last] % f == 0 && (uintptr_t)to % (unsigned)unit == 0 && (uintptr_t)from % (unsigned)unit == 0;
        for (int d = 0; fits && d < last; d++) fits = box->to[d] % f == 0 && (!from || box->from[d] % f == 0);
        if (!fits) continue;
        box->dims[last] /= f;
        for (int d = 0; d < last; d++) {
            box->to[d] /= f;
            if (from) box->from[d] /= f;
        }
        return unit;
    }
    return size;
}

/* Runs STATEMENT with T defined as a type of `size` bytes, for copies of elements. */
#define MP_BY_SIZE(size, STATEMENT) \
    do {                            \
        if ((size) == 1) {          \
            typedef uint8_t T;      \
            STATEMENT;              \
        } else if ((size) == 2) {   \
            typedef uint16_t T;     \
            STATEMENT;              \
        } else if ((size) == 4) {   \
            typedef uint32_t T;     \
            STATEMENT;              \
        } else if ((size) == 8) {   \
            typedef uint64_t T;     \
            STATEMENT;              \
        } else {                    \
            typedef mp_wide T;      \
            STATEMENT;              \
        }                           \
    } while (0)
