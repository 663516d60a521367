/* twin_case.h - runs the GPU's own kernels on the host, and compares them with the CPU's on the same values. */
#pragma once

#include "tests/cases/kernel_case.h"

extern const mp_backend *twin;
int twin_load(void **state); /* set-up of a group of tests */

/* Returns the greatest difference of two arrays, relative to the greatest value. */
double twin_difference(const mp_array *a, const mp_array *b);
/* Runs the case on both backends, plain, channels-last and in bfloat16: forward and, with has_gradient, backward. Results must
 * agree, and the twin must use a kernel of its own. */
void twin_check(const kernel_case *c, bool has_gradient);
/* Runs the case, forward and backward, with aligned rows on the twin and with plain rows on the CPU. Results must agree. */
void twin_check_aligned_rows(const kernel_case *c);
/* Runs each test program test_NAME in a separate process, with the twin as its backend. NULL ends the names. */
void twin_passes(const char *const *tests);
