/* ticks.h - converts the seconds that a file states to integer ticks. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* Chooses the length of a tick such that all n seconds (>= 0) are whole numbers of ticks. Candidates are 1 s and powers of
 * ten down to 1e-12 s, with a relative tolerance of 1e-13. If no candidate fits, the tick is the power of two for which the
 * sum of all seconds is about 2^51 ticks. The sum never exceeds 2^51 ticks, so a plan may run every node four thousand times
 * without overflow. MP_PARSE: a value is negative, not finite or above 1e18; *culprit is its index. O(n). */
mp_status mp_ticks_choose(const double *seconds, size_t n, double *tick_seconds, size_t *culprit, mp_error *err);

/* Converts seconds to ticks. MP_PARSE: a value exceeds 2^51 ticks, or rounding changes the sum by more than 1e-9 of it.
 * O(n). */
mp_status mp_ticks_convert(const double *seconds, size_t n, double tick_seconds, int64_t *ticks, mp_error *err);
