/* index_lines.h - elements by an index of their own along one axis (operators/gathers/index_lines.h), on the GPU. All only
 * enqueue. Private to executor/cuda/.
 *
 * Indices are looked at when the device runs, where nothing can be reported: an index outside of its axis reads zero, and
 * what it would write goes nowhere.
 */
#ifndef EXECUTOR_CUDA_INDEX_LINES_H
#define EXECUTOR_CUDA_INDEX_LINES_H

#ifdef __cplusplus
extern "C" {
#endif

#include "executor/operators/gathers/index_lines.h"
#include "executor/operators/gathers/meeting.h"

/* other = table[index]; table[index] meets other (which may be of another float type); table[index] = 0. */
void mp_cuda_lines_gather(const mp_index_lines *lines);
void mp_cuda_lines_meet(const mp_index_lines *lines, mp_meeting how);
void mp_cuda_lines_clear(const mp_index_lines *lines);

#ifdef __cplusplus
}
#endif

#endif
