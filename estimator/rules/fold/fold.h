/* fold.h - what the fold rules share: element arithmetic in every storable type, and walks over tensors by strides.
 *
 * A fold rule evaluates an operator on small known values (at most MP_VALUE_MAX elements) exactly as ONNX defines it. Integers
 * are computed in 128 bits and wrapped to the output's type, so no case overflows; reals are computed in double and rounded to
 * the output's type. What has no defined result (division by zero, a cast of NaN to an integer) leaves the value unknown.
 */
#pragma once

#include "estimator/model/shape_rule.h"

/* Types whose elements a value can hold: booleans, integers, float16, bfloat16, float32, float64. */
bool mp_fold_can_hold(mp_dtype dtype);

typedef __int128 mp_wide;
mp_wide mp_fold_widen(mp_dtype dtype, int64_t element); /* uint64 elements are kept as the int64 of the same bits */
int64_t mp_fold_wrap(mp_dtype dtype, mp_wide x);        /* modulo 2^bits; bool: x != 0 */
double mp_fold_round(mp_dtype dtype, double x);         /* to the nearest of the type, ties to even */

/* Element k of a value of this type, as a real. */
double mp_fold_real(mp_dtype dtype, const mp_value *value, int64_t k);
/* Stores x as element k, rounded to a real type, truncated to an integer one. False: x has no place in the integer type. */
bool mp_fold_store(mp_dtype dtype, mp_value *value, int64_t k, double x);

/* to[i] = from[j]; both of the same kind. */
static inline void mp_fold_move(mp_value *to, int64_t i, const mp_value *from, int64_t j)
{
    if (from->is_real)
        to->f[i] = from->f[j];
    else
        to->i[i] = from->i[j];
}

/* The known value of input k, one element for each of the tensor's and of the kind its type has; NULL otherwise. */
const mp_value *mp_fold_in(mp_infer *c, int k);

/* What a rule is given. All values that it reads are known, and all that REQUIRES and the shape rule demand holds. */
typedef struct mp_fold {
    mp_infer *c;
    const mp_tensor *in; /* the first input; NULL: there is none */
    mp_tensor *out;      /* the first output */
    const mp_value *x;   /* of the first input; NULL where only its shape counts */
    mp_value *y; /* of the first output, all zeros, to be filled in, as those of the others; NULL: it has another's value */
} mp_fold;

/* A walk over the elements of a tensor in row-major order, with the places of up to three operands alongside. */
enum { MP_WALK_OPERANDS = 3 };
typedef struct mp_walk {
    int rank;
    int64_t dims[MP_RANK_MAX], index[MP_RANK_MAX];
    int64_t at[MP_WALK_OPERANDS]; /* the position of each operand's element */
    int64_t stride[MP_WALK_OPERANDS][MP_RANK_MAX];
    int64_t k, n; /* the current element, of how many */
} mp_walk;
/* Starts at the first element; operands have stride 0 until they are given strides. */
void mp_walk_start(mp_walk *walk, int rank, const int64_t *dims);
/* Operand j is a row-major tensor broadcast to the walk's shape; false: it does not fit. */
bool mp_walk_broadcast(mp_walk *walk, int j, int rank, const int64_t *dims);
void mp_walk_next(mp_walk *walk);

/* Row-major strides; all 0 for a tensor without elements, whose other dimensions may be of any size. */
void mp_strides(int rank, const int64_t *dims, int64_t *strides);

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
