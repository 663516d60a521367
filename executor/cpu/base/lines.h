/* lines.h - reads, writes and processes lines of an array in parallel, for softmax and losses. A line is the elements along
 * one or several dimensions (executor/kernel/loops.h). Private to executor/cpu/. */
#pragma once

#include "executor/cpu/base/parallel.h"
#include "executor/kernel/loops.h"

/* Maximum number of lines (elements along the inner dimensions) processed at the same time. The workspace has memory for this
 * number of lines. */
enum { MP_LINES_AT_ONCE = 64 };

int64_t mp_line_at(const mp_lines *lines, int64_t k); /* returns the offset of the first element of line k of an array */
/* Returns line k of array `a` as floats: a pointer into the array if the line consists of contiguous floats, else a copy in
 * `room` (lines->length floats). */
const float *mp_line_read(const mp_lines *lines, const mp_array *a, int64_t k, float *room);
void mp_line_write(const mp_lines *lines, const mp_array *a, int64_t k, const float *values);
/* As mp_line_read and mp_line_write, for the elements [first, first + n) of line k only; n <= MP_BLOCK. */
const float *mp_line_read_part(const mp_lines *lines, const mp_array *a, int64_t k, int64_t first, int64_t n, float *room);
void mp_line_write_part(const mp_lines *lines, const mp_array *a, int64_t k, int64_t first, int64_t n, const float *values);
/* Returns the number of lines that threads process at the same time, each with its own workspace. */
static inline int64_t mp_lines_at_once(const mp_lines *lines)
{
    return lines->n < MP_LINES_AT_ONCE ? lines->n : MP_LINES_AT_ONCE;
}
/* Runs body(data, k) for every line k of an array. Lines k and k + MP_LINES_AT_ONCE never run at the same time, so they can
 * share workspace. */
void mp_lines_run(const mp_lines *lines, void (*body)(void *data, int64_t k), void *data);
