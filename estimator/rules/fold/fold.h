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
mp_wide mp_fold_widen(mp_dtype dtype, int64_t element); /* returns element k of an integer value in 128 bits; uint64 elements
                                                           are stored as int64 with the same bits */
int64_t mp_fold_wrap(mp_dtype dtype,
                     mp_wide x); /* returns x modulo 2^bits, the integer that x wraps to in this type; for bool 1 if x != 0 */
double
mp_fold_round(mp_dtype dtype,
              double x); /* returns the number of this type that is nearest to x; of two equally near numbers the even one */

/* Returns element k of a value of this type as a real number. */
double mp_fold_real(mp_dtype dtype, const mp_value *value, int64_t k);
/* Stores x as element k of a value. x is rounded to a floating-point type or truncated to an integer type. Returns false if
 * the type cannot represent x. */
bool mp_fold_store(mp_dtype dtype, mp_value *value, int64_t k, double x);

/* Copies element from[j] to element to[i]. Both values must contain floats, or both integers. */
static inline void mp_fold_move(mp_value *to, int64_t i, const mp_value *from, int64_t j)
{
    if (from->is_real)
        to->f[i] = from->f[j];
    else
        to->i[i] = from->i[j];
}

/* Returns the value of input k if all its elements are known, and are integers or floats as its type states; else NULL. */
const mp_value *mp_fold_in(mp_infer *c, int k);

/* The argument of a fold rule. All values that the rule reads are known. The operator satisfies its REQUIRES and its shape
 * rule. */
typedef struct mp_fold {
    mp_infer *c;
    const mp_tensor *in; /* the first input tensor; NULL: the operator has no inputs */
    mp_tensor *out;      /* the operator's first output */
    const mp_value *x;   /* value of the first input; NULL if the rule uses only the shape of this input */
    mp_value *y; /* value of the first output, initially zeros; the rule fills it in, and further outputs too. NULL: the rule
                    makes the output share another tensor's value */
} mp_fold;

/* An iteration over the elements of a tensor in row-major order. It also computes the position in up to three operands. */
enum { MP_WALK_OPERANDS = 3 };
typedef struct mp_walk {
    int rank;
    int64_t dims[MP_RANK_MAX], index[MP_RANK_MAX];
    int64_t at[MP_WALK_OPERANDS]; /* per operand: index of the element that belongs to the current position */
    int64_t stride[MP_WALK_OPERANDS][MP_RANK_MAX];
    int64_t k, n; /* k: number of the current element in row-major order. n: number of elements of the tensor */
} mp_walk;
/* Starts an iteration at the first element. All operands have stride 0 until their strides are set. */
void mp_walk_start(mp_walk *walk, int rank, const int64_t *dims);
/* Declares operand j as a row-major tensor that is broadcast to the shape of the iteration. Returns false if the shapes do
 * not match. */
bool mp_walk_broadcast(mp_walk *walk, int j, int rank, const int64_t *dims);
void mp_walk_next(mp_walk *walk);

/* Computes the strides of a row-major tensor. All strides of a tensor without elements are 0, because its other dimensions
 * may have any size. */
void mp_strides(int rank, const int64_t *dims, int64_t *strides);

/* A function of two elements, for integers and for reals. `integers` returns false if the result is undefined; NULL: the
 * function exists only for reals. */
typedef struct mp_pairing {
    bool c_remainder; /* for Mod, true if fmod = 1: the remainder has the sign of the dividend */
    bool shift_left;
    int bits; /* number of bits of the operands' integer type */
} mp_pairing;
typedef struct mp_binary {
    const char *name;
    bool (*integers)(const mp_pairing *p, mp_wide a, mp_wide b, mp_wide *y);
    double (*reals)(const mp_pairing *p, double a, double b);
} mp_binary;
/* Finds the function of a binary operator, or of Max or Min, by its name; NULL: no function has this name. */
const mp_binary *mp_binary_find(const char *name);
/* Sets acc[i] = f(acc[i], x[j]) in the element type of both, rounded or wrapped. Returns false if the result is undefined. */
bool mp_binary_into(const mp_binary *f, mp_dtype dtype, mp_value *acc, int64_t i, const mp_value *x, int64_t j);
