/* launched.h - reports failed launches to C code. */
#pragma once

#include "memplan/error.h"

/* Returns MP_OK, or MP_IO if a recent launch failed. Call at the end of a call's run. */
mp_status mp_cuda_launched(mp_error *err);
