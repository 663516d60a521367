/* formulas.h - the names of the formulas in elementwise.def, and the functions that the formulas use. */
#pragma once

#include "executor/kernel/vector_math.h"

enum { MP_FORMULA_PARAMETERS = 3 };

#define FLOATS(operands, name, f) MP_FORMULA_##name,
typedef enum mp_formula {
    MP_FORMULA_none,
#include "executor/operators/elementwise/elementwise.def"
    MP_N_FORMULAS
} mp_formula;

#define WHOLE(operands, name, f) MP_WHOLE_##name,
typedef enum mp_whole_formula {
    MP_WHOLE_none,
#include "executor/operators/elementwise/elementwise.def"
    MP_N_WHOLE_FORMULAS
} mp_whole_formula;

#define MP_SQRT_2_OVER_PI 0.7978845608028654f
#define MP_INV_SQRT_2 0.7071067811865475f
#define MP_TWO_OVER_SQRT_PI 1.1283791670955126f
#define MP_INV_SQRT_2_PI 0.3989422804014327f

/* Returns x clamped to [0, 1]. */
MP_INLINE float mp_unit(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}
MP_INLINE float mp_gelu(float x)
{
    return 0.5f * x * (1 + mp_erf(x * MP_INV_SQRT_2));
}
MP_INLINE float mp_gelu_slope(float v)
{
    return 0.5f * (1 + mp_erf(v * MP_INV_SQRT_2)) + v * MP_INV_SQRT_2_PI * mp_exp(-0.5f * v * v);
}
MP_INLINE float mp_tanh_gelu(float x)
{
    return 0.5f * x * (1 + mp_tanh(MP_SQRT_2_OVER_PI * (x + 0.044715f * x * x * x)));
}
MP_INLINE float mp_tanh_gelu_slope(float v)
{
    float t = mp_tanh(MP_SQRT_2_OVER_PI * (v + 0.044715f * v * v * v));
    return 0.5f * (1 + t) + 0.5f * v * (1 - t * t) * MP_SQRT_2_OVER_PI * (1 + 3 * 0.044715f * v * v);
}
MP_INLINE float mp_swish_slope(float v, float a)
{
    float s = mp_sigmoid(a * v);
    return s + a * v * s * (1 - s);
}
/* Returns ln(1 + e^x) without overflow. */
MP_INLINE float mp_softplus(float x)
{
    return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}
MP_INLINE float mp_mish_slope(float v)
{
    float t = tanhf(mp_softplus(v));
    return t + v * (1 - t * t) / (1 + expf(-v));
}
/* mp_remainder returns the remainder of a / b with the sign of b, mp_floored_quotient the quotient rounded down, as in Python
 * and PyTorch. */
MP_INLINE float mp_remainder(float a, float b)
{
    float rest = fmodf(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
MP_INLINE float mp_floored_quotient(float a, float b)
{
    return b == 0 ? a / b : rintf((a - mp_remainder(a, b)) / b);
}
/* Computes a op b for signed integers modulo 2^64. In C itself, the overflow of signed integers is undefined. */
#define MP_WRAPPED(a, op, b) ((int64_t)((uint64_t)(a)op(uint64_t)(b)))
MP_INLINE int64_t mp_whole_power(int64_t a, int64_t b)
{
    int64_t y = 1;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    for (; b; b >>= 1, a = MP_WRAPPED(a, *, a))
        if (b & 1) y = MP_WRAPPED(y, *, a);
    return y;
}
