/* code.h - reports whether this module contains code for a GPU's architecture. */
#pragma once

#include <stdbool.h>

/* True if this module has code for the architecture of the current device (cudaSetDevice). */
bool mp_cuda_has_code(void);
