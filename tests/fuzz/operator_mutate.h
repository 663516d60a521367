/* operator_mutate.h - a case changed at one to three places: sizes, ranks, types, operands, values, attributes, version. */
#pragma once

#include "tests/fuzz/operator_case.h"

enum { OPERATOR_MUTATED = 16 }; /* a bit of `fill`: the case is no longer what somebody wrote */

/* The same seed makes the same of the same case. */
void operator_mutate(operator_case *c, unsigned seed);
