/* factor_case.h - an operator, written as text as in rule_case.h, is split by each of its factors and run part by part.
 *
 * Each operand with the factor is cut along it over 2, 3 and 4 ranks, if divisible; other operands stay whole. Results with the
 * factor are concatenated; other results are added, and so are gradients of operands. All must equal the unsplit operator's
 * results and gradients. Each failure fails the test and shows the case. */
#pragma once

#include "estimator/model/ops.h"

typedef struct factor_case {
    const char *kind; /* may have a domain: "com.microsoft:FusedMatMul" */
    int version;
    const char *inputs, *attributes;
    int n_outputs, n_factors; /* n_factors: the expected number of factors */
    uint32_t wanted;          /* bits of inputs whose gradients are compared; 0: float inputs without a stated value */
} factor_case;

void factors_check(const factor_case *row);
/* Returns whether a case of the operator has been checked. */
bool factors_were_checked(const mp_op *op);
