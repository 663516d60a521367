/* invariant.h - a macro that verifies invariants of the code in debug builds. */
#pragma once

/* Aborts the program if the condition is false. Only builds with MP_DEBUG (make SAN=1, TSAN=1, fuzzers) evaluate the
 * condition. Use it only for invariants of the code; report bad input by an mp_error. */
#ifdef MP_DEBUG
#include <assert.h>
#define MP_INVARIANT(condition) assert(condition)
#else
#define MP_INVARIANT(condition) ((void)sizeof(condition))
#endif
