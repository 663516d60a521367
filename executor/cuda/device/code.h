/* code.h - whether this module runs on a GPU of this architecture. */
#pragma once

#include <stdbool.h>

/* Whether this module has code for the architecture of the device that is set (cudaSetDevice). */
bool mp_cuda_has_code(void);
