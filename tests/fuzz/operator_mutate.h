/* operator_mutate.h - changes a case at one to three places: sizes, ranks, types, operands, values, attributes, version. */
#pragma once

#include "tests/fuzz/operator_case.h"

enum { OPERATOR_MUTATED = 16 }; /* a bit of `fill`: the case was changed by a mutation */

/* Changes the case; the same seed and case give the same result. */
void operator_mutate(operator_case *c, unsigned seed);
