/* ticks.h - converts the seconds of a file into integer ticks. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "memplan/error.h"

/* Chooses how long a tick is so that all n seconds (>= 0) are whole numbers of ticks: 1 s or a power of ten down to
 * 1e-12 if one fits (to 1e-13 of each), else the power of two with which their sum is about 2^51. Their sum is never
 * more than 2^51 ticks, so that a plan may run everything four thousand times over. MP_PARSE: seconds that are
 * negative, not finite or over 1e18, by number in *culprit. O(n). */
mp_status mp_ticks_choose(const double *seconds, size_t n, double *tick_seconds, size_t *culprit, mp_error *err);

/* Converts seconds into ticks. MP_PARSE: a value over 2^51 ticks, or a sum that is off by more than 1e-9 of itself. O(n). */
mp_status mp_ticks_convert(const double *seconds, size_t n, double tick_seconds, int64_t *ticks, mp_error *err);
