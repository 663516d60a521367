/* launches.h - what a step of training on a GPU launches, seen without one: own kernels by name, calls of libraries, and the
 * memory that own kernels touch.
 *
 * launches_backend.c is a module in the GPU's place. It makes the GPU's calls, with the GPU's layouts and NVIDIA's libraries as
 * far as they go without a device; own kernels are their twins, compiled so that every access to memory is a call of
 * launches.c, and what libraries would run is counted and left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of the device, zeroed and taken from the host page by page as it is touched; never given back. NULL: there is none. */
void *launches_allocate(int64_t bytes);

/* A call begins: what it launches until the next one belongs to it. Its workspace is not among its operands. */
void launches_call(const void *workspace, int64_t workspace_bytes);
/* A library would run something. */
void launches_library(const char *name);
/* An own kernel begins (grid.cuh calls it with the name of the launcher's instance). False: its body is to be left out. */
bool launches_begin(const char *instance);

/* Forgets what was counted; bodies run from now on, or do not. */
void launches_reset(bool runs_bodies);
/* One line of CSV for each own kernel and library: name, launches, bytes read and written as sectors of 32 bytes, each counted
 * once a launch, bytes asked for, and of the sectors those that are a call's operand and that no earlier launch of the call has
 * read or written so. The last lines have all own kernels, and all libraries. */
void launches_print(const char *path);

#ifdef __cplusplus
}
#endif
