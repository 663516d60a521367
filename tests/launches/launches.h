/* launches.h - the launches of a training step for a GPU, recorded without one: memplan's own kernels by name, library calls,
 * and the memory that own kernels access.
 *
 * launches_backend.c is a module that replaces the GPU's. It makes the GPU's calls, with its layouts, and with NVIDIA's
 * libraries as far as they work without a device. Own kernels are replaced by twins, compiled so that every memory access calls
 * launches.c. Library kernels are counted, but not run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns zeroed device memory, never released. The host allocates its pages at the first access. NULL: out of memory. */
void *launches_allocate(int64_t bytes);

/* Begins a call, which includes all launches until the next one. Its workspace does not count as an operand. */
void launches_call(const void *workspace, int64_t workspace_bytes);
/* Counts a launch by a library. */
void launches_library(const char *name);
/* Begins an own kernel (grid.cuh passes the name of the launcher's instance). False: its body must be skipped. */
bool launches_begin(const char *instance);

/* Clears all counts; sets whether bodies run from now on. */
void launches_reset(bool runs_bodies);
/* Writes one line of CSV per own kernel and library. Columns: name, launches, bytes read and bytes written in sectors of 32
 * bytes (each counted once per launch), bytes accessed. The last column counts only the bytes of sectors that are operands of a
 * call and that no earlier launch of the call has accessed in the same way. The last lines are the sums over own kernels and
 * over libraries. */
void launches_print(const char *path);

#ifdef __cplusplus
}
#endif
