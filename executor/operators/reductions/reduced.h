/* reduced.h - the operation of a Reduce operator, and the dimensions that it reduces, for every backend. */
#pragma once

#include <math.h>

#include "executor/kernel/kernel.h"
#include "executor/kernel/vector_math.h"

#define STEP(NAME, name, start, take, joined) MP_STEP_##NAME,
typedef enum mp_reduction_step {
#include "executor/operators/reductions/reductions.def"
    MP_N_STEPS
} mp_reduction_step;

#define END(name, f) MP_END_##name,
typedef enum mp_reduction_end {
#include "executor/operators/reductions/reductions.def"
    MP_N_ENDS
} mp_reduction_end;

#define SLOPE(name, f) MP_SLOPE_##name,
typedef enum mp_reduction_slope {
#include "executor/operators/reductions/reductions.def"
    MP_N_SLOPES
} mp_reduction_slope;

typedef enum mp_reduction_reads {
    MP_READS_NOTHING,
    MP_READS_INPUT,
    MP_READS_OUTPUT,
    MP_READS_BOTH,
    MP_READS_TIES,
    MP_READS_ZEROS
} mp_reduction_reads;

/* A row of reductions.def. */
typedef struct mp_reduction_row {
    const char *kind;
    mp_reduction_step step;
    mp_reduction_end end;
    bool shifted, is_plain;
    mp_reduction_slope slope;
    mp_reduction_reads reads;
} mp_reduction_row;
const mp_reduction_row *mp_reduction_row_of(
    const mp_operator *op); /* returns the row of reductions.def for `op`; NULL: `op` is not a Reduce operator */
/* True if the reduction is defined for integers. */
bool mp_reduction_takes_whole(const mp_reduction_row *row);

/* Returns the final result of a reduction of n elements: applies the last formula of the operator (such as a square root) to
 * the accumulated value. */
MP_INLINE double mp_reduction_finish(mp_reduction_end end, double result, double shift, int64_t n)
{
    switch (end) {
#define END(name, f)    \
    case MP_END_##name: \
        return f;
#include "executor/operators/reductions/reductions.def"
    default:
        return result;
    }
}

/* Combines the accumulated integer `a` with element v and returns the result, exact modulo 2^64. For a maximum or minimum, `a`
 * must be initialized with the first element. */
MP_INLINE uint64_t mp_take_whole(mp_reduction_step step, bool is_unsigned, uint64_t a, int64_t v)
{
    bool less = is_unsigned ? (uint64_t)v < a : v < (int64_t)a;
    switch (step) {
    case MP_STEP_MAX:
        return less || (uint64_t)v == a ? a : (uint64_t)v;
    case MP_STEP_MIN:
        return less ? (uint64_t)v : a;
    case MP_STEP_PRODUCT:
        return a * (uint64_t)v;
    case MP_STEP_SQUARES:
        return a + (uint64_t)v * (uint64_t)v;
    case MP_STEP_ABSOLUTES:
        return a + (v < 0 && !is_unsigned ? 0 - (uint64_t)v : (uint64_t)v);
    default:
        return a + (uint64_t)v;
    }
}

/* Marks the dimensions of input 0 that a Reduce operator of any version reduces. MP_UNSUPPORTED: the axes are only known at run
 * time, are not INT64, or are not dimensions of the input. */
mp_status mp_reduced_dims(const mp_operands *x, bool reduced[MP_ARRAY_RANK], mp_error *err);
/* Returns the result of a reduction as an array with the rank of its input; the reduced dimensions have size 1. */
mp_array mp_reduction_kept_dims(const mp_array *result, int rank, const bool *reduced);
