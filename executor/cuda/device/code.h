/* code.h - whether this module runs on a GPU of this architecture. */
#ifndef EXECUTOR_CUDA_CODE_H
#define EXECUTOR_CUDA_CODE_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>

/* Whether this module has code for the architecture of the device that is set (cudaSetDevice). */
bool mp_cuda_has_code(void);

#ifdef __cplusplus
}
#endif

#endif
