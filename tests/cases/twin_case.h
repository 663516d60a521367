/* twin_case.h - the GPU's own kernels on the host, compared with the CPU's on the same values. */
#pragma once

#include "tests/cases/kernel_case.h"

extern const mp_backend *twin;
int twin_load(void **state); /* of a group of tests */

/* The greatest difference of two arrays, as a part of the greatest value. */
double twin_difference(const mp_array *a, const mp_array *b);
/* Runs the case on both, plain, channels-last and in bfloat16, forward and (has_gradient) backward; results agree, and the twin
 * has a kernel of its own. */
void twin_check(const kernel_case *c, bool has_gradient);
/* Runs test_NAME of each name up to NULL in a process of its own, with the twin as its backend. */
void twin_passes(const char *const *tests);
