/* control_branches.h - If with a known condition. */
#pragma once

#include "estimator/simplify/control/inference.h"

/* Replaces If operator `op`, whose operands are inferred, by one of its branches. Errors: control.h. */
mp_status mp_control_if(mp_inference *w, int op);
