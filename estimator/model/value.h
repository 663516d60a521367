/* value.h - elements of small tensors that are known before any step runs: constants, shapes and what is computed of them. */
#pragma once

#include "memplan/model.h"

enum { MP_VALUE_MAX = 1 << 17 }; /* elements of the largest value that is kept */

/* Row-major. Integers and booleans are in `i`, floats in `f`. */
typedef struct mp_value {
    int64_t n;
    bool is_real;
    union {
        int64_t *i;
        double *f;
    };
} mp_value;

/* n zeroed elements in the model's pool, or NULL: out of memory. */
mp_value *mp_value_new(mp_model *model, int64_t n, bool is_real);
