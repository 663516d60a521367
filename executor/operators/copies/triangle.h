/* triangle.h - Trilu, which keeps a triangle of each matrix, for every backend. */
#pragma once

#include "executor/kernel/kernel.h"

/* The diagonal becomes the call's state, an int64_t, where it is a constant: backward does not see it otherwise. `run` is the
 * backend's. MP_UNSUPPORTED: types or layouts like that, or a gradient whose diagonal is computed; MP_NOMEM. */
mp_status mp_triangle_prepare(const mp_operands *x, mp_call *call, mp_error *err);
