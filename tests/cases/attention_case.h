/* attention_case.h - attention specifications as libraries receive them, for tests. */
#pragma once

#include "executor/operators/attention/attention_spec.h"

/* Returns attention in bfloat16 over 2 x 4 matrices, scale 1/8. `by_head`: each row holds all heads side by side, as a
 * projection writes them. */
mp_attention_spec attention_case(int64_t rows, int64_t columns, int64_t depth, int64_t value_depth, bool by_head);
