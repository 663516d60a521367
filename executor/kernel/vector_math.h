/* vector_math.h - exp, tanh, erf as polynomials that compilers turn into vector code. All backends use these functions.
 *
 * exp: range reduction by ln 2 in two parts and a polynomial of degree 5 (Cephes, expf), about 2 ulp. tanh and erf: rational
 * approximations on a clamped range (Eigen), about 4 ulp. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "executor/kernel/element.h"

MP_INLINE float mp_exp(float x)
{
    x = x < -87.33654f ? -87.33654f : x;
    x = x > 88.37626f ? 88.37626f : x;
    float n = floorf(x * 1.44269504088896341f + 0.5f);
    x -= n * 0.693359375f;
    x -= n * -2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * x + 1.3981999507e-3f;
    y = y * x + 8.3334519073e-3f;
    y = y * x + 4.1665795894e-2f;
    y = y * x + 1.6666665459e-1f;
    y = y * x + 5.0000001201e-1f;
    y = y * x * x + x + 1;
    /* the low bits of `power` are the integer n + 127, the exponent of the result. A conversion of n to int would be undefined
     * for a NaN */
    float power = n + (0x1.8p23f + 127);
    uint32_t bits;
    memcpy(&bits, &power, sizeof bits);
    bits <<= 23;
    memcpy(&power, &bits, sizeof power);
    return y * power;
}

/* Returns e^x as mp_exp does, but 0 where the result would be denormal. */
MP_INLINE float mp_exp_to_zero(float x)
{
    float e = mp_exp(x);
    return x < -87.33654f ? 0 : e;
}

MP_INLINE float mp_sigmoid(float x)
{
    return 1 / (1 + mp_exp(-x));
}

MP_INLINE float mp_tanh(float x)
{
    float small = x;
    x = x < -7.90531110763549805f ? -7.90531110763549805f : x;
    x = x > 7.90531110763549805f ? 7.90531110763549805f : x;
    float s = x * x;
    float p = -2.76076847742355e-16f;
    p = p * s + 2.00018790482477e-13f;
    p = p * s + -8.60467152213735e-11f;
    p = p * s + 5.12229709037114e-08f;
    p = p * s + 1.48572235717979e-05f;
    p = p * s + 6.37261928875436e-04f;
    p = p * s + 4.89352455891786e-03f;
    float q = 1.19825839466702e-06f;
    q = q * s + 1.18534705686654e-04f;
    q = q * s + 2.26843463243900e-03f;
    q = q * s + 4.89352518554385e-03f;
    float y = x * p / q;
    return fabsf(small) < 0.0004f ? small : y;
}

MP_INLINE float mp_erf(float x)
{
    x = x < -4 ? -4 : x;
    x = x > 4 ? 4 : x;
    float s = x * x;
    float p = -2.72614225801306e-10f;
    p = p * s + 2.77068142495902e-08f;
    p = p * s + -2.10102402082508e-06f;
    p = p * s + -5.69250639462346e-05f;
    p = p * s + -7.34990630326855e-04f;
    p = p * s + -2.95459980854025e-03f;
    p = p * s + -1.60960333262415e-02f;
    float q = -1.45660718464996e-05f;
    q = q * s + -2.13374055278905e-04f;
    q = q * s + -1.68282697438203e-03f;
    q = q * s + -7.37332916720468e-03f;
    q = q * s + -1.42647390514189e-02f;
    return x * p / q;
}
