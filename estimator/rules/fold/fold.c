/* fold.c - arithmetic on single elements of every type, and iteration over tensors by strides. */
#include "estimator/rules/fold/fold.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The floating-point types: number of significant bits, exponent of the smallest positive number, and exponent of the first
 * power of two that is out of range. */
static const struct {
    mp_dtype dtype;
    int precision, step, limit;
} reals[] = {{MP_DTYPE_FLOAT, 24, -149, 128},
             {MP_DTYPE_FLOAT16, 11, -24, 16},
             {MP_DTYPE_BFLOAT16, 8, -133, 128},
             {MP_DTYPE_DOUBLE, 53, -1074, 1024}};

static bool is_unsigned(mp_dtype dtype)
{
    return dtype == MP_DTYPE_UINT64 || dtype == MP_DTYPE_UINT32 || dtype == MP_DTYPE_UINT16 || dtype == MP_DTYPE_UINT8 ||
           dtype == MP_DTYPE_UINT4;
}

bool mp_fold_can_hold(mp_dtype dtype)
{
    for (size_t k = 0; k < sizeof reals / sizeof *reals; k++)
        if (reals[k].dtype == dtype) return true;
    return dtype == MP_DTYPE_BOOL || mp_dtype_is_integer(dtype);
}

mp_wide mp_fold_widen(mp_dtype dtype, int64_t element)
{
    return dtype == MP_DTYPE_UINT64 ? (mp_wide)(uint64_t)element : element;
}

int64_t mp_fold_wrap(mp_dtype dtype, mp_wide x)
{
    if (dtype == MP_DTYPE_BOOL) return x != 0;
    int bits = mp_dtype_bits(dtype);
    uint64_t low = (uint64_t)x;
    if (bits < 64) {
        low &= (UINT64_C(1) << bits) - 1;
        if (!is_unsigned(dtype) && low >> (bits - 1)) return (int64_t)low - (INT64_C(1) << bits);
    }
    int64_t element;
    memcpy(&element, &low, sizeof element);
    return element;
}

double mp_fold_round(mp_dtype dtype, double x)
{
    size_t k = 0;
    while (reals[k].dtype != dtype)
        if (++k == sizeof reals / sizeof *reals) return x;
    if (x == 0 || !isfinite(x) || dtype == MP_DTYPE_DOUBLE) return x;
    int exponent;
    frexp(x, &exponent);
    int step = exponent - reals[k].precision > reals[k].step ? exponent - reals[k].precision : reals[k].step;
    double y = ldexp(rint(ldexp(x, -step)), step);
    return fabs(y) >= ldexp(1, reals[k].limit) ? copysign(INFINITY, x) : y;
}

double mp_fold_real(mp_dtype dtype, const mp_value *value, int64_t k)
{
    return value->is_real ? value->f[k] : (double)mp_fold_widen(dtype, value->i[k]);
}

bool mp_fold_store(mp_dtype dtype, mp_value *value, int64_t k, double x)
{
    if (value->is_real) {
        value->f[k] = mp_fold_round(dtype, x);
        return true;
    }
    if (dtype == MP_DTYPE_BOOL) {
        value->i[k] = x != 0;
        return true;
    }
    int bits = mp_dtype_bits(dtype);
    double whole = trunc(x), low = is_unsigned(dtype) ? 0 : -ldexp(1, bits - 1),
           high = ldexp(1, is_unsigned(dtype) ? bits : bits - 1);
    if (!(whole >= low && whole < high)) return false;
    value->i[k] = mp_fold_wrap(dtype, (mp_wide)whole);
    return true;
}

const mp_value *mp_fold_in(mp_infer *c, int k)
{
    const mp_tensor *t = mp_infer_in(c, k);
    if (!t || !mp_fold_can_hold(t->dtype)) return NULL;
    const mp_value *v = mp_infer_value(c, k);
    if (!v || v->n != mp_tensor_elements(t) || (v->n && v->is_real != mp_dtype_is_float(t->dtype))) return NULL;
    return v;
}

void mp_strides(int rank, const int64_t *dims, int64_t *strides)
{
    int64_t stride = mp_product(dims, 0, rank) != 0;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = stride;
        if (stride) stride *= dims[d];
    }
}

void mp_walk_start(mp_walk *walk, int rank, const int64_t *dims)
{
    memset(walk, 0, sizeof *walk);
    walk->rank = rank;
    walk->n = mp_product(dims, 0, rank);
    for (int d = 0; d < rank; d++) walk->dims[d] = dims[d];
}

bool mp_walk_broadcast(mp_walk *walk, int j, int rank, const int64_t *dims)
{
    int64_t strides[MP_RANK_MAX];
    int lead = walk->rank - rank;
    if (lead < 0) return false;
    mp_strides(rank, dims, strides);
    for (int d = 0; d < rank; d++) {
        if (dims[d] != 1 && dims[d] != walk->dims[lead + d]) return false;
        walk->stride[j][lead + d] = dims[d] == 1 ? 0 : strides[d];
    }
    return true;
}

void mp_walk_next(mp_walk *walk)
{
    walk->k++;
    for (int d = walk->rank - 1; d >= 0; d--) {
        bool carry = ++walk->index[d] == walk->dims[d];
        for (int j = 0; j < MP_WALK_OPERANDS; j++)
            walk->at[j] += carry ? -walk->stride[j][d] * (walk->dims[d] - 1) : walk->stride[j][d];
        if (!carry) return;
        walk->index[d] = 0;
    }
}
