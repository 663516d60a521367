/* control_loops.h - Loop and Scan with a known number of iterations. */
#pragma once

#include "estimator/simplify/control/inference.h"

/* Replaces Loop or Scan operator `op`, whose operands are inferred, by its iterations. Errors: control.h. */
mp_status mp_control_loop(mp_inference *w, int op);
mp_status mp_control_scan(mp_inference *w, int op);
