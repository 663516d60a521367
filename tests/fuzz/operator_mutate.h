/* operator_mutate.h - a case changed at one to three places: sizes, ranks, types, operands, values, attributes, version. */
#ifndef TESTS_FUZZ_OPERATOR_MUTATE_H
#define TESTS_FUZZ_OPERATOR_MUTATE_H

#include "tests/fuzz/operator_case.h"

enum { OPERATOR_MUTATED = 16 }; /* a bit of `fill`: the case is no longer what somebody wrote */

/* The same seed makes the same of the same case. */
void operator_mutate(operator_case *c, unsigned seed);

#endif
