/* fold_binary.h - the functions of two elements that fold rules apply: arithmetic, comparisons, logic. */
#pragma once

#include "estimator/rules/fold/fold.h"

/* A function of two elements. `integers` returns false where the result is not defined; NULL: none for integers. */
typedef struct mp_pairing {
    bool c_remainder; /* Mod with fmod = 1 */
    bool shift_left;
    int bits; /* of the operands' type */
} mp_pairing;
typedef struct mp_binary {
    const char *name;
    bool (*integers)(const mp_pairing *p, mp_wide a, mp_wide b, mp_wide *y);
    double (*reals)(const mp_pairing *p, double a, double b);
} mp_binary;
/* By operator name: the binary operators and Max and Min; NULL: no such function. */
const mp_binary *mp_binary_find(const char *name);
/* acc[i] = f(acc[i], x[j]) in a type that both have, rounded or wrapped. False: not defined. */
bool mp_binary_into(const mp_binary *f, mp_dtype dtype, mp_value *acc, int64_t i, const mp_value *x, int64_t j);
