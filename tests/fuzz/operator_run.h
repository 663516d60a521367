/* operator_run.h - an operator of a fuzzed case through the CPU's kernels, every operand in memory of its own with guards on
 * both sides (and the ends known to the address sanitizer, where there is one).
 *
 * `fill` says what lies in inputs without stated values: floats in [0.1, 0.9) always; integers 0, 1, 2, 0, 1, 2, ... (0), zeros
 * (1), 0, -1, 2, -3, ... (2), or very large ones of either sign (3).
 */
#pragma once

#include "tests/fuzz/operator_case.h"

typedef enum operator_verdict {
    OPERATOR_REFUSED,    /* by name, before it ran: with shapes, by the rules of the table or by the kernel */
    OPERATOR_FAILED,     /* while it ran, with a status: an index that reaches too far */
    OPERATOR_TOO_LARGE,  /* not tried */
    OPERATOR_RAN,        /* forward, and backward where that was asked for and there is one */
    OPERATOR_OVERWRITES, /* a fault: bytes beside an operand have changed, or an input has */
    OPERATOR_NOT_FINITE, /* a fault, where it was asked: an element of an output is no finite number, or was never written */
    OPERATOR_NO_REASON   /* a fault: refused without naming the operator */
} operator_verdict;

/* `finite`: inputs and attributes are such that the outputs have to be. `text` says more than the verdict. */
operator_verdict operator_run(const operator_case *c, bool finite, char text[OPERATOR_TEXT]);
