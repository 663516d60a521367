/* times.h - when what was enqueued has run, by events of the first stream. As in mp_backend. Private to executor/cuda/. */
#pragma once

#include "memplan/backend.h"

typedef struct mp_cuda_times mp_cuda_times;

mp_status mp_cuda_note_time(const mp_backend *self, int k, mp_error *err);
mp_status mp_cuda_seconds_between(const mp_backend *self, int from, int to, double *seconds, mp_error *err);
/* When the device is closed; NULL is fine. */
void mp_cuda_times_close(mp_cuda_times *times);
