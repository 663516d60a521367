/* meet_cpu.h - updates meet elements on the CPU. Private to executor/cpu/. */
#pragma once

#include "executor/operators/gathers/meeting.h"

/* into[into_at + k * into_stride] meets values[at + k * stride], for k < n; of any type that can meet. */
void mp_cpu_meet(mp_meeting how, mp_dtype dtype, int64_t n, void *into, int64_t into_at, int64_t into_stride,
                 const void *values, int64_t at, int64_t stride);
