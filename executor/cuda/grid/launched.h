/* launched.h - what the last launches failed with, for C. */
#ifndef EXECUTOR_CUDA_LAUNCHED_H
#define EXECUTOR_CUDA_LAUNCHED_H

#ifdef __cplusplus
extern "C" {
#endif

#include "memplan/error.h"

/* MP_OK, or MP_IO. At the end of a call's run. */
mp_status mp_cuda_launched(mp_error *err);

#ifdef __cplusplus
}
#endif

#endif
