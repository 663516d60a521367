/* cubic.h - interpolation by cubic convolution (Keys 1981), for every backend. */
#pragma once

#include <math.h>
#include <stddef.h>

#include "executor/kernel/element.h"

/* Returns the weight of an element at distance x from the sampled point, with parameter a. */
MP_INLINE double mp_cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Computes the weights of the four neighbours of a point at distance t after the second neighbour, and their derivatives with
 * respect to t (slopes NULL: not requested). */
MP_INLINE void mp_cubic_weights(double t, double a, double weights[4], double slopes[4])
{
    for (int k = 0; k < 4; k++) {
        double x = t - (k - 1), distance = fabs(x);
        weights[k] = mp_cubic(x, a);
        if (!slopes) continue;
        double slope =
            distance <= 1 ? (3 * (a + 2) * distance - 2 * (a + 3)) * distance : (3 * a * distance - 10 * a) * distance + 8 * a;
        slopes[k] = x < 0 ? -slope : slope;
    }
}
