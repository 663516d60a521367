/* value_case.h - table rows with operators' expected values on the CPU's kernels, in every layout and float type. */
#pragma once

#include "tests/cases/kernel_case.h"

typedef struct value_case {
    const char *kind;
    int version;
    const char *inputs, *attributes;
    int n_outputs, output, n;
    double expected[64];
} value_case;

/* Fills float inputs without a stated value: 1, 2, 3 ..., and the next input 101, 102 ... */
void value_count_up(kernel_run *r);

/* Checks each row plain and channels-last, in float32 and bfloat16. Both types must represent the values exactly. */
void value_check_table(const value_case *table, size_t n);

/* Checks that old contents of overwritten gradients and of the workspace do not affect the results. */
void value_check_overwriting(const kernel_case *c);
