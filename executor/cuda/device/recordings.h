/* recordings.h - record_begin, record_end, replay and discard of mp_backend: capture a pass as a CUDA graph. */
#pragma once

#include "memplan/backend.h"

mp_status mp_cuda_record_begin(const mp_backend *self, mp_error *err);
mp_status mp_cuda_record_end(const mp_backend *self, void **recording, mp_error *err);
mp_status mp_cuda_replay(const mp_backend *self, void *recording, mp_error *err);
void mp_cuda_discard(const mp_backend *self, void *recording);
