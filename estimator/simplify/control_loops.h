/* control_loops.h - Loop and Scan with a known number of iterations. */
#ifndef ESTIMATOR_CONTROL_LOOPS_H
#define ESTIMATOR_CONTROL_LOOPS_H

#include "estimator/simplify/inference.h"

/* Replaces Loop or Scan operator `op`, whose operands are inferred, by its iterations. Errors: control.h. */
mp_status mp_control_loop(mp_inference *w, int op);
mp_status mp_control_scan(mp_inference *w, int op);

#endif
