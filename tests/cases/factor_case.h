/* factor_case.h - an operator, written as text as in rule_case.h, that is split by each of its factors and run part by part.
 *
 * Each operand that carries the factor is cut along it over 2, 3 and 4 ranks, as far as they divide; every other one is whole.
 * Results that carry it are put together, others are added up, and so are the gradients of operands: all of them have to be
 * those of the whole. Every failure is a failed test that shows the case.
 */
#pragma once

#include "estimator/model/ops.h"

typedef struct factor_case {
    const char *kind; /* may carry a domain: "com.microsoft:FusedMatMul" */
    int version;
    const char *inputs, *attributes;
    int n_outputs, n_factors; /* n_factors: how many have to be there */
    uint32_t wanted;          /* bits of inputs whose gradients are compared; 0: float inputs without a stated value */
} factor_case;

void factors_check(const factor_case *row);
/* True if a case of the operator has been checked. */
bool factors_were_checked(const mp_op *op);
