/* lines.h - reads, writes and processes lines of an array in parallel, for softmax and losses. Private to executor/cpu/. */
#pragma once

#include "executor/cpu/base/parallel.h"
#include "executor/kernel/loops.h"

/* Most lines that are processed at the same time: the workspace holds this many times what one line needs. */
enum { MP_LINES_AT_ONCE = 64 };

int64_t mp_line_at(const mp_lines *lines, int64_t k); /* returns where line k begins */
/* Returns line k of an array of this layout as floats: in place if they lie side by side, else copied into `room` (length
 * floats). */
const float *mp_line_read(const mp_lines *lines, const mp_array *a, int64_t k, float *room);
void mp_line_write(const mp_lines *lines, const mp_array *a, int64_t k, const float *values);
/* Read and write only the elements [first, first + n) of line k; n <= MP_BLOCK. */
const float *mp_line_read_part(const mp_lines *lines, const mp_array *a, int64_t k, int64_t first, int64_t n, float *room);
void mp_line_write_part(const mp_lines *lines, const mp_array *a, int64_t k, int64_t first, int64_t n, const float *values);
/* Returns how many lines are worked on at the same time. */
static inline int64_t mp_lines_at_once(const mp_lines *lines)
{
    return lines->n < MP_LINES_AT_ONCE ? lines->n : MP_LINES_AT_ONCE;
}
/* body(data, k) for every line; lines k and k + MP_LINES_AT_ONCE never run at the same time. */
void mp_lines_run(const mp_lines *lines, void (*body)(void *data, int64_t k), void *data);
