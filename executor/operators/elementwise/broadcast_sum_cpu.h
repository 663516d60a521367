/* broadcast_sum_cpu.h - the sum over what was broadcast: gradients of biases, scales and scalars. */
#pragma once

#include "executor/kernel/array.h"

/* to = scale * (from summed over the dimensions in which `to` has size 1 or that it lacks in front), both float. Each sum has a
 * fixed order. With `add`: added to what is there. */
void mp_cpu_sum_to(const mp_array *from, const mp_array *to, float scale, bool add);
