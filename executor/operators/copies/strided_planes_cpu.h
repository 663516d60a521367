/* strided_planes_cpu.h - copies one plane of elements: in rows, in transposed tiles, or one by one. Private to executor/cpu/.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* rows x columns; strides in elements. */
typedef struct mp_plane {
    int64_t rows, columns;
    int64_t from_row, from_column, to_row, to_column;
} mp_plane;

/* Elements of `size` bytes (1, 2, 4 or 8), in the calling thread. */
void mp_plane_copy(const mp_plane *plane, int size, const void *from, void *to);
/* Whether it goes through tiles, which are fastest with rows in multiples of MP_PLANE_ROWS. */
enum { MP_PLANE_ROWS = 32 };
static inline bool mp_plane_is_transposed(const mp_plane *p)
{
    return p->to_column == 1 && p->from_row == 1 && p->from_column != 1 && p->columns > 1;
}
