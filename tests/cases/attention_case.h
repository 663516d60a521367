/* attention_case.h - attention as libraries' graphs are made from it, for tests. */
#pragma once

#include "executor/operators/attention/attention_spec.h"

/* Attention in bfloat16 over 2 x 4 matrices, scale 1/8; `by_head`: heads lie within rows, as a projection leaves them. */
mp_attention_spec attention_case(int64_t rows, int64_t columns, int64_t depth, int64_t value_depth, bool by_head);
