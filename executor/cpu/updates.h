/* updates.h - what the CPU does without an operator: gradients are added, clipped and followed by their parameters. As in
 * mp_backend; element by element, so that no result depends on when, or next to what, a parameter is updated. Private to
 * executor/cpu/.
 */
#ifndef EXECUTOR_CPU_UPDATES_H
#define EXECUTOR_CPU_UPDATES_H

#include "executor/kernel/optimizer.h"

/* to[k] += from[k]: an mp_add_function for FLOAT and BFLOAT16. */
void mp_cpu_add(mp_dtype dtype, int64_t n, const void *from, void *to);
void mp_cpu_update(mp_update *updates, size_t n, const mp_update_factors *factors);
int64_t mp_cpu_norm_workspace_bytes(int64_t n_elements);
void mp_cpu_clip(const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor);

#endif
