/* index_lines_cuda.h - elements by an index of their own along one axis (operators/gathers/index_lines.h), on the GPU. All only
 * enqueue. Private to executor/cuda/.
 *
 * Indices are looked at when the device runs, where nothing can be reported: an index outside of its axis reads zero, and
 * what it would write goes nowhere.
 */
#pragma once

#include "executor/kernel/c_linkage.h"

MP_C_BEGIN

#include "executor/operators/gathers/index_lines.h"
#include "executor/operators/gathers/meeting.h"

/* other = table[index]; table[index] meets other (which may be of another float type); table[index] = 0. */
void mp_cuda_lines_gather(const mp_index_lines *lines);
void mp_cuda_lines_meet(const mp_index_lines *lines, mp_meeting how);
void mp_cuda_lines_clear(const mp_index_lines *lines);

MP_C_END
