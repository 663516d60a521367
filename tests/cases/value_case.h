/* value_case.h - expected values of operators through the CPU's kernels, as table rows, in every layout and float type. */
#pragma once

#include "tests/cases/kernel_case.h"

typedef struct value_case {
    const char *kind;
    int version;
    const char *inputs, *attributes;
    int n_outputs, output, n;
    double expected[64];
} value_case;

/* Float inputs without a stated value hold 1, 2, 3 ..., the next one 101, 102 ... */
void value_count_up(kernel_run *r);

/* Each row plain and channels-last, in float32 and bfloat16, which must hold the values exactly. */
void value_check_table(const value_case *table, size_t n);

/* What a gradient overwrites does not shine through, nor what lies in the workspace. */
void value_check_overwriting(const kernel_case *c);
