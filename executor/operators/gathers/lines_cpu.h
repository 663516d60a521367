/* lines_cpu.h - elements by an index of their own along one axis (index_lines.h), on the CPU. Private to executor/cpu/. */
#pragma once

#include "executor/operators/gathers/index_lines.h"
#include "executor/operators/gathers/meeting.h"

/* Whether all indices are inside the axis; MP_INVALID. */
mp_status mp_cpu_lines_check(const mp_index_lines *lines, const mp_operands *x, mp_error *err);
/* other = table[index]. */
void mp_cpu_lines_gather(const mp_index_lines *lines);
/* table[index] meets other. */
void mp_cpu_lines_meet(const mp_index_lines *lines, mp_meeting how);
/* table[index] = 0; other only gives the shape. */
void mp_cpu_lines_clear(const mp_index_lines *lines);
