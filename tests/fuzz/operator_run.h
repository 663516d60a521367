/* operator_run.h - runs the operator of a fuzzed case on the CPU's kernels. Each operand has separate memory with guards on
 * both sides, which an address sanitizer also knows.
 *
 * `fill` selects the values of inputs without stated values. Floats are always in [0.1, 0.9). Integers are 0, 1, 2, 0, 1, 2,
 * ... (0), zeros (1), 0, -1, 2, -3, ... (2), or very large with either sign (3). */
#pragma once

#include "tests/fuzz/operator_case.h"

typedef enum operator_verdict {
    OPERATOR_REFUSED,    /* with a message before it ran: by the table's rules or by the kernel */
    OPERATOR_FAILED,     /* while it ran, with a status: an index out of range */
    OPERATOR_TOO_LARGE,  /* not tried */
    OPERATOR_RAN,        /* forward, and backward if requested and available */
    OPERATOR_OVERWRITES, /* a fault: bytes outside an operand, or an input, have changed */
    OPERATOR_NOT_FINITE, /* a fault, if checked: an output element is not finite or was never written */
    OPERATOR_NO_REASON   /* a fault: the refusal does not name the operator */
} operator_verdict;

/* Runs a case. `finite`: inputs and attributes imply finite outputs. `text` receives details of the verdict. */
operator_verdict operator_run(const operator_case *c, bool finite, char text[OPERATOR_TEXT]);
