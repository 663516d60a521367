/* recording.h - a pass captured as a CUDA graph. As in mp_backend. */
#ifndef EXECUTOR_CUDA_RECORDING_H
#define EXECUTOR_CUDA_RECORDING_H

#include "memplan/error.h"

mp_status mp_cuda_record_begin(mp_error *err);
mp_status mp_cuda_record_end(void **recording, mp_error *err);
mp_status mp_cuda_replay(void *recording, mp_error *err);
void mp_cuda_discard(void *recording);

#endif
