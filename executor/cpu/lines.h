/* lines.h - an array as lines along some of its dimensions: softmax, losses. Private to executor/cpu/. */
#ifndef EXECUTOR_CPU_LINES_H
#define EXECUTOR_CPU_LINES_H

#include "executor/cpu/parallel.h"

/* At most so many lines are worked on at the same time: what a line needs of the workspace is there as often. */
enum { MP_LINES_AT_ONCE = 64 };

typedef struct mp_lines {
    int n_outer, n_inner;
    int64_t outer[MP_ARRAY_RANK], inner[MP_ARRAY_RANK], outer_at[MP_ARRAY_RANK], inner_at[MP_ARRAY_RANK];
    int outer_dim[MP_ARRAY_RANK]; /* the dimension of the array that outer[k] is */
    int64_t n, length;
    bool contiguous; /* each line is */
} mp_lines;

/* Lines along the dimensions whose bits are set, in the order of the dimensions; line k counts the other dimensions row-major.
 */
mp_lines mp_lines_of(const mp_array *a, uint32_t line);
int64_t mp_line_at(const mp_lines *lines, int64_t k); /* where line k begins */
/* Line k of an array of the same layout: where it lies, or in `room` (length floats). */
const float *mp_line_read(const mp_lines *lines, const mp_array *a, int64_t k, float *room);
void mp_line_write(const mp_lines *lines, const mp_array *a, int64_t k, const float *values);
/* How many lines are worked on at the same time. */
static inline int64_t mp_lines_at_once(const mp_lines *lines)
{
    return lines->n < MP_LINES_AT_ONCE ? lines->n : MP_LINES_AT_ONCE;
}
/* body(data, k) for every line; lines k and k + MP_LINES_AT_ONCE never run at the same time. */
void mp_lines_run(const mp_lines *lines, void (*body)(void *data, int64_t k), void *data);

#endif
