/* launched.h - what the last launches failed with, for C. */
#pragma once

#include "memplan/error.h"

/* MP_OK, or MP_IO. At the end of a call's run. */
mp_status mp_cuda_launched(mp_error *err);
