/* launched.h - reports failed launches to callers in C. */
#pragma once

#include "memplan/error.h"

/* Returns MP_OK, or MP_IO if one of the last launches failed. Call at the end of a call's run. */
mp_status mp_cuda_launched(mp_error *err);
