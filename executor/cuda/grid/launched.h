/* launched.h - reports failed launches of GPU kernels to C code. */
#pragma once

#include "memplan/error.h"

/* Returns MP_OK, or MP_IO if a recent kernel launch failed. Every run function of a GPU kernel ends with this call. */
mp_status mp_cuda_launched(mp_error *err);
