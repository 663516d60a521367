/* device.h - what the module's own files know of the device besides cuda.h. */
#ifndef EXECUTOR_CUDA_DEVICE_H
#define EXECUTOR_CUDA_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "estimator/training/target.h"

/* The profile of the GPU of this machine, by its name and with its memory; of an H100 where there is none. Opens nothing. */
const mp_device *mp_cuda_profile(void);
/* Whether this module has code for the architecture of the device that is set (cudaSetDevice). */
bool mp_cuda_has_code(void);

#ifdef __cplusplus
}
#endif

#endif
