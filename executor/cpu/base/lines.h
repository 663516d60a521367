/* lines.h - reads, writes and processes lines of an array in parallel, for softmax and losses. Private to executor/cpu/. */
#pragma once

#include "executor/cpu/base/parallel.h"
#include "executor/kernel/loops.h"

/* Limit on the lines processed at the same time. The workspace has memory for this many lines. */
enum { MP_LINES_AT_ONCE = 64 };

int64_t mp_line_at(const mp_lines *lines, int64_t k); /* returns the offset of the first element of line k */
/* Returns line k of an array of this layout as floats: a pointer into the array if the line is contiguous floats, else a copy
 * in `room` (length floats). */
const float *mp_line_read(const mp_lines *lines, const mp_array *a, int64_t k, float *room);
void mp_line_write(const mp_lines *lines, const mp_array *a, int64_t k, const float *values);
/* Read and write only the elements [first, first + n) of line k; n <= MP_BLOCK. */
const float *mp_line_read_part(const mp_lines *lines, const mp_array *a, int64_t k, int64_t first, int64_t n, float *room);
void mp_line_write_part(const mp_lines *lines, const mp_array *a, int64_t k, int64_t first, int64_t n, const float *values);
/* Returns the number of lines processed at the same time. */
static inline int64_t mp_lines_at_once(const mp_lines *lines)
{
    return lines->n < MP_LINES_AT_ONCE ? lines->n : MP_LINES_AT_ONCE;
}
/* Runs body(data, k) for every line k. Lines k and k + MP_LINES_AT_ONCE never run at the same time, so they can share
 * workspace. */
void mp_lines_run(const mp_lines *lines, void (*body)(void *data, int64_t k), void *data);
