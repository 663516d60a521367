/* fold.h - helpers for fold rules: element arithmetic in every storable type, and iteration over tensors by strides.
 *
 * A fold rule evaluates an operator on small known values (at most MP_VALUE_MAX elements) exactly as ONNX defines it. Integers
 * are computed in 128 bits and wrapped to the output's type, so no case overflows. Reals are computed in double and rounded to
 * the output's type. If the result is undefined (division by zero, a cast of NaN to an integer), the value stays unknown. */
#pragma once

#include "estimator/model/shape_rule.h"

/* True if a value can hold elements of this type: booleans, integers, float16, bfloat16, float32, float64. */
bool mp_fold_can_hold(mp_dtype dtype);

typedef __int128 mp_wide;
mp_wide
mp_fold_widen(mp_dtype dtype,
              int64_t element); /* returns the element in 128 bits; uint64 elements are stored as int64 with the same bits */
int64_t mp_fold_wrap(mp_dtype dtype,
                     mp_wide x); /* returns the integer that x wraps to in this type: x modulo 2^bits; for bool 1 if x != 0 */
double mp_fold_round(mp_dtype dtype, double x); /* returns the number of this type nearest to x; ties go to the even one */

/* Returns element k of a value of this type as a real number. */
double mp_fold_real(mp_dtype dtype, const mp_value *value, int64_t k);
/* Stores x as element k, rounded to a real type or truncated to an integer type. Returns false if the type cannot represent
 * x. */
bool mp_fold_store(mp_dtype dtype, mp_value *value, int64_t k, double x);

/* Copies from[j] to to[i]; both values are real, or both are integer. */
static inline void mp_fold_move(mp_value *to, int64_t i, const mp_value *from, int64_t j)
{
    if (from->is_real)
        to->f[i] = from->f[j];
    else
        to->i[i] = from->i[j];
}

/* Returns the value of input k if all its elements are known and have its type's kind; else NULL. */
const mp_value *mp_fold_in(mp_infer *c, int k);

/* The argument of a fold rule. All values that the rule reads are known; REQUIRES and the shape rule are satisfied. */
typedef struct mp_fold {
    mp_infer *c;
    const mp_tensor *in; /* the first input; NULL: the operator has no inputs */
    mp_tensor *out;      /* the operator's first output */
    const mp_value *x;   /* value of the first input; NULL if only its shape is used */
    mp_value *y; /* value of the first output, initially zeros, which the rule fills in like further outputs; NULL: it shares a
                    tensor's value */
} mp_fold;

/* Iterates over the elements of a tensor in row-major order, with the positions of up to three operands. */
enum { MP_WALK_OPERANDS = 3 };
typedef struct mp_walk {
    int rank;
    int64_t dims[MP_RANK_MAX], index[MP_RANK_MAX];
    int64_t at[MP_WALK_OPERANDS]; /* index of each operand's element for the current position of the walk */
    int64_t stride[MP_WALK_OPERANDS][MP_RANK_MAX];
    int64_t k, n; /* k: index of the current element in row-major order; n: number of elements */
} mp_walk;
/* Starts at the first element. Operands have stride 0 until their strides are set. */
void mp_walk_start(mp_walk *walk, int rank, const int64_t *dims);
/* Makes operand j a row-major tensor that is broadcast to the walk's shape. Returns false if the shapes do not fit. */
bool mp_walk_broadcast(mp_walk *walk, int j, int rank, const int64_t *dims);
void mp_walk_next(mp_walk *walk);

/* Computes row-major strides. All are 0 for a tensor without elements, whose other dimensions may have any size. */
void mp_strides(int rank, const int64_t *dims, int64_t *strides);

/* A function of two elements. `integers` returns false if the result is undefined; NULL: the function is only for reals. */
typedef struct mp_pairing {
    bool c_remainder; /* true for Mod with fmod = 1: the remainder has the sign of the dividend */
    bool shift_left;
    int bits; /* width of the operands' integer type in bits */
} mp_pairing;
typedef struct mp_binary {
    const char *name;
    bool (*integers)(const mp_pairing *p, mp_wide a, mp_wide b, mp_wide *y);
    double (*reals)(const mp_pairing *p, double a, double b);
} mp_binary;
/* Finds the function of a binary operator, or of Max or Min, by name; NULL: none. */
const mp_binary *mp_binary_find(const char *name);
/* Sets acc[i] = f(acc[i], x[j]) in their common type, rounded or wrapped. Returns false if the result is undefined. */
bool mp_binary_into(const mp_binary *f, mp_dtype dtype, mp_value *acc, int64_t i, const mp_value *x, int64_t j);
